package host_test

import (
	"fmt"
	"time"

	"github.com/troupe-run/troupe/host"
	"github.com/troupe-run/troupe/mcp"
)

// A command and a URL, printed without what may be secret.
func Example() {
	fmt.Println(host.Command("npx", "-y", "@modelcontextprotocol/server-memory"))
	fmt.Println(host.URL("https://me:secret@mcp.example.com/mcp?key=secret"))
	// Output:
	// npx
	// https://mcp.example.com/mcp
}

// A server that keeps nothing of its callers is shared by all of them. It sees one directory, and no network.
func ExampleOptions() {
	files := host.Command("mcp-server-filesystem", "/srv/shared")
	opts := host.Options{
		Isolation: host.Shared,
		Tools:     host.Tools{Allow: []string{"read_*", "list_*"}},
		Roots:     host.Roots{List: []mcp.Root{{URI: "file:///srv/shared"}}},
		Pool:      host.Pool{Max: 4, Idle: time.Hour},
		Confinement: host.Confinement{
			NoNewPrivs: host.Try,
			Files:      host.Files{Read: []string{"/usr", "/srv/shared"}},
			NoNetwork:  host.Require,
		},
	}
	fmt.Println(opts.Check(files))
	// Output:
	// <nil>
}

// An error names each field that is wrong.
func ExampleOptions_Check() {
	opts := host.Options{Isolation: "user", Pool: host.Pool{Queue: -1}, Headers: host.Secrets{"Authorization": "Bearer s3cret"}}
	fmt.Println(opts.Check(host.Command("server")))
	// Output:
	// Options.Isolation is "user": want session, principal, call, shared
	// Options.Pool.Queue is negative: it must be bounded
	// Options.Headers is for URLs, and the target is a command
}

// Values are not printed, however they are printed.
func ExampleSecrets() {
	env := host.Secrets{"TOKEN": "s3cret", "HOST": "db.internal"}
	fmt.Println(env)
	fmt.Printf("%+v %#v\n", host.Options{Env: env}.Env, env)
	fmt.Println(env["TOKEN"] == "s3cret")
	// Output:
	// HOST=*** TOKEN=***
	// HOST=*** TOKEN=*** host.Secrets("HOST=*** TOKEN=***")
	// true
}
