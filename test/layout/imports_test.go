package layout

import (
	"fmt"
	"maps"
	"path"
	"slices"
	"strings"
)

const rootModule = "github.com/troupe-run/troupe"

// A layer is a directory of the root module and all below it, with the directories that it may import.
type layer struct {
	dir   string   // "" is the root package alone; the longest dir that matches counts
	may   []string // directories, each with all below it; a package may always import those of its own subject
	tests []string // more of them, for test files
	why   string   // why it may not import the rest
}

// The layers from the bottom to the top. Packages below internal are pure state machines unless they have their own line.
var layers = []layer{
	{".ci", nil, nil, "checks of the repository do without the code they check"},
	{"mcp", nil, []string{"codec", "internal/protocol"}, "protocol data knows no layer"},
	{"codec", []string{"mcp", "internal/jsonv2", "internal/limits"}, nil, "bytes and protocol data are all there is to a codec"},
	{"internal/scope", nil, nil, "what a request lacks is known without knowing whose it is"},
	{"auth", []string{"internal/scope"}, nil, "whose a token is depends on the token and its issuer alone"},
	{"internal/refusal", []string{"mcp", "internal/limits"}, []string{"internal/protocol"}, "every door takes its words from it, so it can know none"},
	{"internal/protocol", []string{"mcp"}, []string{"codec", "internal/closedschema"}, "how revisions differ is known from their tables alone"},
	{"internal", []string{"mcp", "internal/limits"}, nil, "a state machine decides from its arguments alone"},
	{"actors/internal", []string{"mcp", "internal/limits"}, nil, "a state machine decides from its arguments alone"},
	{"test/histories", nil, nil, "what happens at random is drawn and judged without knowing whom it happens to"},
	{"internal/bearer", []string{"auth", "transport", "internal/limits", "internal/quota", "internal/refusal"}, nil, "who may come in is known before anybody knows what for"},
	{"operator", nil, nil, "what an operator is told is a form of its own, and knows nothing of who tells it"},
	{"internal/admin", []string{"operator"}, nil, "a socket carries what an operator is told, and knows nothing of who tells it"},
	{"host", []string{"mcp", "internal/keeper", "internal/scope"}, nil, "what is said of a server of others is known without whoever runs it; a program becomes a keeper by it"},
	{"internal/backend/naming", nil, nil, "what items are called depends on names alone"},
	{"internal/backend/journal", nil, nil, "what a backend has said lately is kept without knowing who runs it, and who reads it"},
	{"internal/backend/pool", nil, nil, "a state machine decides from its arguments alone"},
	{"internal/backend", []string{"codec", "mcp", "host", "internal/guard", "internal/keeper", "internal/kernel", "internal/limits", "internal/quota", "internal/upstream"}, nil, "instances are run without knowing whose calls they serve"},
	{"internal/hostfile", []string{"host", "mcp", "internal/backend/naming", "internal/configfile"}, nil, "what a file says is read without whoever runs it"},
	{"internal/client", []string{"mcp", "internal/eventstream"}, nil, "a client knows a server by what comes over the wire"},
	{"internal/upstream", []string{"mcp", "codec", "internal/eventstream", "internal/protocol"}, nil, "a client half knows a server by what comes over the wire, and nobody whom it serves"},
	{"internal/configfile", []string{"auth"}, nil, "what a file says is read without the flags beside it"},
	{"internal/closedschema", nil, nil, "fuzz targets share a binary with it, so it can need nothing"},
	{"internal/directory", nil, nil, "finding a value by key needs nothing"},
	{"internal/hosted", []string{"mcp", "codec", "actors", "internal/limits", "internal/protocol"}, nil, "it asks by a call of actors, and knows no handler"},
	{"internal/hosting", []string{"mcp", "codec", "actors", "host", "internal/admin", "internal/backend", "internal/hostfile", "internal/limits", "internal/protocol", "internal/scope", "internal/telemetry", "internal/template", "internal/toolschema", "internal/upstream"}, nil, "it joins a call of actors to a backend, and knows no handler"},
	{"internal/gauges", []string{"actors", "cluster", "internal/backend", "internal/limits", "internal/quota", "internal/revocation", "internal/store", "internal/telemetry", "internal/worker"}, nil, "metrics are read from the parts of a process"},
	{"internal/guard", nil, nil, "how code ended is known without knowing whose it was"},
	{"transport/server", []string{"internal/limits", "internal/quota", "internal/rawio"}, nil, "who is let in is known before anybody reads what they want"},
	{"transport/server/http1", nil, nil, "a listener knows requests and responses, and nothing of what they carry"},
	{"internal/inproc", nil, nil, "a name for a server of this process needs nothing"},
	{"internal/jsonv2", nil, nil, "a library's options know nothing of what they are for"},
	{"internal/rawio", nil, nil, "reading and writing need nothing"},
	{"internal/keypair", nil, nil, "what a server shows over TLS depends on two files alone"},
	{"internal/keeper", []string{"internal/rawio"}, nil, "a keeper outlives releases, and knows lines, numbers and processes"},
	{"internal/kernel", []string{"internal/directory"}, nil, "an actor system knows nothing of what its actors do"},
	{"test/backend", nil, nil, "a stranger's server has nothing of this one"},
	{"test/layout", nil, nil, "rules read the repository and run none of it"},
	{"internal/letter", nil, nil, "the form of a message knows neither its content nor what carries it"},
	{"internal/limits", nil, nil, "every layer takes its bounds from it, so it can know none"},
	{"internal/memory", nil, nil, "how much memory there is depends on the machine alone"},
	{"actors/internal/mrtr", []string{"codec", "internal/limits"}, nil, "what a client carries for a call knows nothing of how the call waits"},
	{"internal/apikey", []string{"auth", "internal/admin", "internal/scope", "internal/unknown", "internal/store"}, []string{"cluster", "internal/nodestore", "test/kit"}, "an operator's keys are known without the store that has them, and whoever calls with them"},
	{"internal/revocation", []string{"auth", "internal/admin", "internal/limits", "internal/unknown", "internal/store"}, nil, "whose tokens are refused is known without the store that says so, and whoever comes with them"},
	{"internal/nodestore", []string{"cluster", "internal/apikey", "internal/backend", "internal/revocation", "internal/store", "internal/worker"}, []string{"auth"}, "it joins cluster to who keeps something there, and nothing else"},
	{"internal/worker", []string{"codec", "mcp", "actors", "internal/guard", "internal/kernel", "internal/limits", "internal/quota", "internal/store", "internal/task"}, []string{"cluster", "internal/nodestore", "test/kit"}, "whoever runs tasks declares what it needs of the store"},
	{"internal/tasknews", []string{"mcp", "actors", "internal/limits", "internal/protocol", "internal/task", "internal/worker"}, nil, "what is told of tasks is known without who answers for them"},
	{"internal/spoken", []string{"mcp", "codec", "internal/protocol", "internal/refusal"}, nil, "what a server speaks is known without the server"},
	{"internal/backend/listing", []string{"codec", "mcp", "internal/protocol"}, nil, "what backends list is read without knowing who runs them"},
	{"internal/catalogue", []string{"mcp", "codec", "internal/template"}, nil, "what is offered is listed without knowing what it does"},
	{"internal/observe", []string{"mcp", "codec", "actors", "internal/telemetry"}, nil, "what is reported of a call is read from the call alone"},
	{"internal/operated", []string{"mcp", "codec", "actors", "cluster", "operator", "internal/store", "internal/task", "internal/telemetry", "internal/worker"}, nil, "an operator is told of a process by its parts"},
	{"internal/procs", nil, nil, "how long goroutines wait for a processor depends on the process alone"},
	{"internal/quota", []string{"internal/directory"}, nil, "counting clients knows nothing of what they do"},
	{"actors/internal/relay", []string{"codec", "internal/quota", "internal/refusal"}, nil, "an exchange between two nodes knows neither of them, nor the call"},
	{"actors/internal/attachment", []string{"actors/internal/stream"}, nil, "a connection that reads a stream knows neither its session nor its log"},
	{"actors/internal/subscription", []string{"mcp", "codec", "internal/kernel", "internal/limits"}, nil, "a subscription knows its subscribers by their interface"},
	{"internal/telemetry", []string{"mcp"}, nil, "every layer reports to it, so it can know none"},
	{"internal/toolschema", []string{"codec", "internal/limits"}, nil, "schemas know JSON, and neither tools nor the protocol"},
	{"actors/internal/record", []string{"codec", "internal/limits", "actors/internal/stream", "internal/unknown"}, nil, "a record tells of a stream's log, and of nothing that serves it"},
	{"actors/internal/replay", []string{"actors/internal/record", "actors/internal/stream"}, nil, "an event id is judged from what is stored, and by nobody who serves it"},
	{"actors/internal/takeover", []string{"actors/internal/record", "actors/internal/stream"}, nil, "who may write a stream is decided from what is stored, and by nobody who serves it"},
	{"actors/internal/session", []string{"codec", "mcp", "internal/limits", "internal/unknown"}, nil, "a session's record is read and written here, and stored elsewhere"},
	{"internal/unknown", []string{"codec"}, nil, "what a release does not know of a record is kept as it stands there"},
	{"internal/store", nil, nil, "what a store promises is known without who keeps it, and who uses it"},
	{"internal/task", []string{"codec", "mcp", "internal/limits", "internal/protocol", "internal/unknown"}, nil, "a task's states know nothing of who runs it, and where it is stored"},
	{"test/sim", []string{"mcp", "internal"}, nil, "the simulation drives state machines against a model, without the real layers"},
	{"test/kit", []string{"mcp", "codec", "actors", "transport", "cluster", "internal"}, nil, "the root's own tests use it"},
	{"actors", []string{"mcp", "codec", "internal"}, nil, "actors declare what they need of transport and cluster; the root joins them"},
	{"transport", []string{"mcp", "codec", "internal/guard", "internal/limits", "internal/protocol", "internal/quota", "internal/refusal", "internal/telemetry"}, nil, "a transport carries bytes and holds no protocol state"},
	{"cluster/internal", []string{"internal/store"}, nil, "what lies in a data directory is known without who opens it"},
	{"cluster", []string{"mcp", "codec", "internal/inproc", "internal/lease", "internal/letter", "internal/limits", "cluster/internal/owner", "internal/program", "cluster/internal/remoteclock", "internal/store", "internal/telemetry"}, nil, "storage knows records and events, not who writes them"},
	{"", []string{"auth", "host", "mcp", "codec", "actors", "transport", "cluster", "operator", "internal"}, []string{"examples"}, "the public API is below its users"},
	{"test/spec", []string{"", "auth", "host", "mcp", "operator"}, []string{"codec", "internal/eventstream", "internal/limits", "internal/protocol", "internal/toolschema"}, "the specification is tested over the wire, from outside"},
	{"troupetest", []string{"", "mcp", "internal/guard", "internal/origin", "internal/protocol"}, nil, "it tests what any user can write, over a pipe that knows its request"},
	{"examples", []string{"auth", "", "host", "mcp"}, nil, "an example shows what any user can write"},
	{"bench", []string{"", "mcp", "codec", "examples", "internal"}, nil, "load comes over the wire"},
	{"bench/lab", []string{"", "auth", "mcp", "examples"}, nil, "its servers are such as any user can write, one of them with tokens"},
	{"cmd", []string{"", "auth", "host", "mcp", "operator", "examples", "bench", "internal/admin", "internal/apikey", "internal/client", "internal/configfile", "internal/hostfile", "internal/keeper", "internal/limits", "internal/memory", "internal/procs", "internal/protocol", "internal/revocation", "internal/telemetry"}, []string{"internal/eventstream"}, "the command turns flags into Options and has no parts of its own"},
}

// testPackages exist for tests: test files anywhere may import them, and other packages may not.
var testPackages = []string{"internal/bubble", "internal/closedschema", "test/histories", "test/sim", "test/spec/host", "test/spec/official", "test/kit", "test/kit/certificate", "test/kit/ports", "test/kit/when", "troupetest"}

// An owner says which packages may import something from outside the module.
type owner struct {
	target string   // an import path and all below it; the longest that matches counts
	in     []string // directories and all below them; "" is the root package alone
	tests  bool     // whether all test files and test packages may import it, too
	why    string
}

var owners = []owner{
	{"github.com/asynkron/protoactor-go", nil, false, "of protoactor only the package actor is sound enough to build on"},
	{"github.com/asynkron/protoactor-go/actor", []string{"internal/kernel"}, false, "the kernel hides it, faults included"},
	{"github.com/asynkron/protoactor-go/eventstream", []string{"internal/kernel"}, false, "an actor system needs one; the kernel hides it"},
	{"github.com/bytedance/sonic", []string{"codec"}, false, "one place decides how payloads are read and written"},
	{"github.com/coreos/go-systemd", nil, false, "of go-systemd only the packages that need nothing else are used"},
	{"github.com/coreos/go-systemd/v22/activation", []string{"cmd"}, false, "only the command is started by a service manager"},
	{"github.com/coreos/go-systemd/v22/daemon", []string{"cmd"}, false, "only the command is started by a service manager"},
	{"github.com/go-jose/go-jose", []string{"auth"}, false, "one place verifies signatures"},
	{"github.com/goccy/go-yaml", []string{"internal/configfile", "internal/hostfile", "internal/skill"}, false, "the command reads a configuration file, and a skill has frontmatter"},
	{"github.com/google/jsonschema-go", []string{"internal/protocol", "internal/toolschema"}, false, "schemas are protocol data, and inferred in one place"},
	{"github.com/santhosh-tekuri/jsonschema", []string{"internal/toolschema"}, true, "one place bounds what validation may cost"},
	{"github.com/nats-io/nats-server/v2/server/ats", []string{"cluster", "test/kit", "troupetest"}, false, "tests in virtual time start the clock of the store before"},
	{"github.com/nats-io", []string{"cluster", "test/kit", "bench/lab"}, false, "storage is reached through interfaces of its users"},
	{"github.com/HdrHistogram/hdrhistogram-go", []string{"bench/loadgen"}, false, "one place sums up latencies"},
	{"github.com/KimMachineGun/automemlimit", []string{"internal/memory"}, false, "one place knows the machine's memory"},
	{"github.com/prometheus", []string{"cmd", "bench/lab"}, false, "an embedding program brings its own exporter"},
	{"github.com/spf13/cobra", []string{"cmd"}, false, "only the command has flags"},
	{"github.com/spf13/pflag", []string{"cmd"}, false, "only the command has flags"},
	{"github.com/yosida95/uritemplate", []string{"internal/template"}, false, "one place reads URI templates"},
	{"golang.org/x/sys", []string{"cmd", "internal/keeper"}, false, "only the command is started by a service manager, whose clock it reads, and only a keeper confines and ends processes"},
	{"golang.org/x/time", []string{"internal/quota"}, false, "one place has token buckets"},
	{"go.opentelemetry.io/otel", []string{"internal/telemetry", "", "test/spec", "cmd", "bench/lab"}, false, "layers report through internal/telemetry"},
	{"go.opentelemetry.io/otel/exporters", []string{"cmd", "bench/lab"}, false, "an embedding program brings its own exporter"},
	{"go.opentelemetry.io/contrib", []string{"cmd"}, false, "an embedding program brings its own exporter"},
	{"go.opentelemetry.io/proto/otlp", []string{"cmd"}, false, "only a collector of tests reads what is exported"},
	{"google.golang.org/protobuf", []string{"cmd"}, false, "only a collector of tests reads what is exported"},
	{"go.opentelemetry.io/otel/sdk", []string{"cmd", "bench/lab", "test/spec"}, false, "an embedding program brings its own SDK"},
	{"github.com/go-json-experiment/json", []string{"internal/jsonv2"}, true, "one place decides how payloads are read and written without sonic, and it is the oracle of the codec's tests"},
	{"github.com/google/go-cmp", nil, true, "it compares values in tests"},
	{"golang.org/x/tools/txtar", nil, true, "it holds transcripts of tests"},
}

// importsAcrossLayers checks the directions of imports: an upper layer may import a lower one, and siblings may not
// import each other.
func importsAcrossLayers(repo repository) []string {
	var violations []string
	for _, s := range repo.own() {
		home, ok := layerOf(s.dir())
		if !ok {
			violations = append(violations, fmt.Sprintf("%s belongs to no layer; give its directory a line in layers", s.path))
			continue
		}
		for _, spec := range s.file.Imports {
			target := strings.Trim(spec.Path.Value, "`\"")
			dir, ok := dirOf(target)
			if !ok || within(dir, subject(s.dir())) || allowed(s, home, dir) {
				continue
			}
			violations = append(violations, fmt.Sprintf("%s imports %s: %s", s.at(spec.Pos()), target, home.why))
		}
	}
	return violations
}

func layerOf(dir string) (layer, bool) {
	var found layer
	ok := false
	for _, l := range layers {
		if within(dir, l.dir) && (!ok || len(l.dir) > len(found.dir)) {
			found, ok = l, true
		}
	}
	return found, ok
}

// dirOf returns the directory of a package of the root module.
func dirOf(target string) (string, bool) {
	if target == rootModule {
		return "", true
	}
	return strings.CutPrefix(target, rootModule+"/")
}

// subject returns the directory whose packages belong together: cmd and each directory internal hold many subjects,
// every other directory one.
func subject(dir string) string {
	parts := strings.Split(dir, "/")
	for i, part := range parts[:len(parts)-1] {
		if part == "internal" || i == 0 && (part == "cmd" || part == "test") {
			return path.Join(parts[:i+2]...)
		}
	}
	return parts[0]
}

func allowed(s source, home layer, dir string) bool {
	isTestPackage := func(dir string) bool {
		return slices.ContainsFunc(testPackages, func(p string) bool { return within(dir, p) })
	}
	if isTestPackage(dir) {
		return s.isTest() || isTestPackage(s.dir()) || within(s.dir(), "bench")
	}
	may := home.may
	if s.isTest() {
		may = slices.Concat(may, home.tests)
	}
	return slices.ContainsFunc(may, func(m string) bool { return within(dir, m) })
}

// strayDependencies keeps third-party packages where they belong.
func strayDependencies(repo repository) []string {
	var violations []string
	for _, s := range repo.own() {
		for _, target := range slices.Sorted(maps.Keys(s.imports())) {
			if _, own := dirOf(target); own || isStd(target) {
				continue
			}
			var who owner
			for _, o := range owners {
				if within(target, o.target) && len(o.target) > len(who.target) {
					who = o
				}
			}
			holds := func(dir string) bool { return within(s.dir(), dir) }
			switch {
			case who.target == "":
				violations = append(violations, fmt.Sprintf("%s imports %s, which has no line in owners", s.path, target))
			case slices.ContainsFunc(who.in, holds):
			case who.tests && (s.isTest() || slices.ContainsFunc(testPackages, holds)):
			default:
				violations = append(violations, fmt.Sprintf("%s imports %s: %s", s.path, target, who.why))
			}
		}
	}
	return violations
}

// isStd reports whether an import path is one of the standard library: its first element has no dot.
func isStd(target string) bool {
	first, _, _ := strings.Cut(target, "/")
	return !strings.Contains(first, ".")
}

var importCases = []layoutCase{
	{"sibling layers", importsAcrossLayers, map[string]string{"actors/a.go": "package actors\nimport _ \"" + rootModule + "/cluster\"\n"}, "actors/a.go:2"},
	{"sibling layers in a test", importsAcrossLayers, map[string]string{"transport/a_test.go": "package transport_test\nimport _ \"" + rootModule + "/actors\"\n"}, "transport/a_test.go:2"},
	{"the root from below", importsAcrossLayers, map[string]string{"test/kit/a.go": "package kit\nimport _ `" + rootModule + "`\n"}, rootModule},
	{"one state machine from another", importsAcrossLayers, map[string]string{"internal/task/a.go": "package task\nimport _ \"" + rootModule + "/actors/internal/session\"\n"}, "internal/task/a.go:2"},
	{"a state machine's own parts", importsAcrossLayers, map[string]string{"internal/task/a.go": "package task\nimport _ \"" + rootModule + "/internal/task/steps\"\n"}, ""},
	{"a layer's own parts", importsAcrossLayers, map[string]string{"transport/stdio/a.go": "package stdio\nimport _ \"" + rootModule + "/transport/sse\"\n"}, ""},
	{"a sibling with a longer name", importsAcrossLayers, map[string]string{"mcp/a.go": "package mcp\nimport _ \"" + rootModule + "/mcpx\"\n"}, "mcpx"},
	{"kit in a test", importsAcrossLayers, map[string]string{"cluster/a_test.go": "package cluster_test\nimport _ \"" + rootModule + "/test/kit\"\n"}, ""},
	{"kit outside tests", importsAcrossLayers, map[string]string{"actors/a.go": "package actors\nimport _ \"" + rootModule + "/test/kit\"\n"}, "test/kit"},
	{"what the root joins", importsAcrossLayers, map[string]string{"a.go": "package troupe\nimport _ \"" + rootModule + "/cluster\"\n", "cmd/troupe/a.go": "package main\nimport _ \"" + rootModule + "\"\n"}, ""},
	{"a new directory", importsAcrossLayers, map[string]string{"router/a.go": "package router\n"}, "belongs to no layer"},
	{"another module", importsAcrossLayers, map[string]string{"interop/go.mod": "module interop\n", "interop/a.go": "package interop\n"}, ""},

	{"sonic outside codec", strayDependencies, map[string]string{"mcp/a.go": "package mcp\nimport _ \"github.com/bytedance/sonic/ast\"\n"}, "sonic/ast"},
	{"sonic in codec", strayDependencies, map[string]string{"codec/a.go": "package codec\nimport _ \"github.com/bytedance/sonic/ast\"\n"}, ""},
	{"NATS in a test of actors", strayDependencies, map[string]string{"actors/a_test.go": "package actors\nimport _ \"github.com/nats-io/nats.go\"\n"}, "nats.go"},
	{"protoactor's cluster", strayDependencies, map[string]string{"internal/kernel/a.go": "package kernel\nimport _ \"github.com/asynkron/protoactor-go/cluster\"\n"}, "only the package actor"},
	{"protoactor's actor", strayDependencies, map[string]string{"internal/kernel/a.go": "package kernel\nimport _ \"github.com/asynkron/protoactor-go/actor\"\n"}, ""},
	{"protoactor's actor outside the kernel", strayDependencies, map[string]string{"actors/a.go": "package actors\nimport _ \"github.com/asynkron/protoactor-go/actor\"\n"}, "the kernel hides it"},
	{"the protocol in quota", importsAcrossLayers, map[string]string{"internal/quota/a.go": "package quota\nimport _ \"" + rootModule + "/internal/directory\"\nimport _ \"" + rootModule + "/codec\"\n"}, "internal/quota/a.go:3"},
	{"a layer below the kernel", importsAcrossLayers, map[string]string{"internal/kernel/a.go": "package kernel\nimport _ \"" + rootModule + "/mcp\"\n"}, "internal/kernel/a.go:2"},
	{"the OTel SDK in telemetry", strayDependencies, map[string]string{"internal/telemetry/a.go": "package telemetry\nimport _ \"go.opentelemetry.io/otel/sdk/metric\"\n"}, "sdk/metric"},
	{"the OTel API in telemetry", strayDependencies, map[string]string{"internal/telemetry/a.go": "package telemetry\nimport _ \"go.opentelemetry.io/otel/metric\"\n"}, ""},
	{"the root's dependency below it", strayDependencies, map[string]string{"transport/a.go": "package transport\nimport _ \"github.com/google/jsonschema-go/jsonschema\"\n"}, "jsonschema"},
	{"a tool of tests in code", strayDependencies, map[string]string{"mcp/a.go": "package mcp\nimport _ \"github.com/google/go-cmp/cmp\"\n"}, "go-cmp"},
	{"a tool of tests in a test", strayDependencies, map[string]string{"mcp/a_test.go": "package mcp\nimport _ \"github.com/google/go-cmp/cmp\"\n"}, ""},
	{"a new dependency", strayDependencies, map[string]string{"mcp/a.go": "package mcp\nimport _ \"example.com/x\"\n"}, "no line in owners"},
}
