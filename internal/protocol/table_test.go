package protocol_test

import (
	"errors"
	"fmt"
	"slices"
	"strings"
	"testing"

	"github.com/troupe-run/troupe/codec"
	"github.com/troupe-run/troupe/internal/protocol"
	"github.com/troupe-run/troupe/mcp"
)

func TestRevisions(t *testing.T) {
	t.Parallel()
	all := mcp.Revisions()
	if !slices.IsSorted(all) || len(all) != 5 || all[4] != mcp.Latest {
		t.Errorf("got revisions %v, want five in order up to the latest", all)
	}
	for _, r := range all {
		got, ok := mcp.ParseRevision(r.String())
		if !ok || got != r {
			t.Errorf("parse %q: got %v, %v", r.String(), got, ok)
		}
		if r.Stateless() == protocol.Has(r, protocol.FeatureSessions) {
			t.Errorf("%v: got stateless %v, want the opposite of having sessions", r, r.Stateless())
		}
	}
	for _, s := range []string{"", "2025-11-26", "2025-11-25 ", "1.0.0", "DRAFT-2026"} {
		if r, ok := mcp.ParseRevision(s); ok {
			t.Errorf("parse %q: got %v, want none", s, r)
		}
	}
	for _, r := range []mcp.Revision{0, mcp.Latest + 1, 255} {
		if r.String() != "" || r.Valid() || r.Stateless() || protocol.Has(r, protocol.FeatureSessions) || protocol.Has(r, protocol.FeatureListen) {
			t.Errorf("revision %d: got a name, an era or a feature, want none", uint8(r))
		}
	}
	if protocol.Has(mcp.Latest, protocol.Feature(255)) {
		t.Error("got a feature nobody knows")
	}
}

func TestNegotiate(t *testing.T) {
	t.Parallel()
	all := mcp.Revisions()
	tests := []struct {
		requested string
		supported []mcp.Revision
		want      mcp.Revision
	}{
		{"2025-11-25", all, mcp.Revision20251125},
		{"2024-11-05", all, mcp.Revision20241105},
		{"2024-11-05", []mcp.Revision{mcp.Revision20251125}, mcp.Revision20251125},
		{"2026-07-28", all, mcp.Revision20251125},
		{"2099-01-01", all, mcp.Revision20251125},
		{"1.0.0", []mcp.Revision{mcp.Revision20250618, mcp.Revision20250326}, mcp.Revision20250618},
		{"", []mcp.Revision{mcp.Revision20251125}, mcp.Revision20251125},
		{"2025-11-25", []mcp.Revision{mcp.Revision20260728}, 0},
		{"2025-11-25", nil, 0},
		{"x", []mcp.Revision{0, 99}, 0},
	}
	for _, tt := range tests {
		if got := protocol.Negotiate(tt.requested, tt.supported); got != tt.want {
			t.Errorf("Negotiate(%q, %v): got %v, want %v", tt.requested, tt.supported, got, tt.want)
		}
	}
}

// TestMethodsAreThoseOfTheSchemas compares the table with the message unions of every
// revision's schema, in both directions.
func TestMethodsAreThoseOfTheSchemas(t *testing.T) {
	t.Parallel()
	for _, r := range mcp.Revisions() {
		defs, _ := loadSchema(t, r.String())
		want := map[string]protocol.Kind{} // "method direction"
		add := func(union string, d protocol.Direction, k protocol.Kind) {
			members := defs[union].AnyOf
			if members == nil {
				members = []*schema{{Ref: "/" + union}} // a union of one member is that member
			}
			for _, m := range members {
				method := defs[m.ref()].Properties["method"].Const.(string)
				want[fmt.Sprint(method, " ", d)] = k
			}
		}
		add("ClientRequest", protocol.ToServer, protocol.KindRequest)
		add("ClientNotification", protocol.ToServer, protocol.KindNotification)
		add("ServerNotification", protocol.ToClient, protocol.KindNotification)
		if defs["ServerRequest"] != nil {
			add("ServerRequest", protocol.ToClient, protocol.KindRequest)
		}
		if protocol.Has(r, protocol.FeatureTasksExtension) {
			for _, method := range []string{mcp.MethodTasksGet, mcp.MethodTasksCancel, mcp.MethodTasksUpdate} {
				want[fmt.Sprint(method, " ", protocol.ToServer)] = protocol.KindRequest
			}
			want[fmt.Sprint(mcp.NotifyTasks, " ", protocol.ToClient)] = protocol.KindNotification
			// Over stdio the server ends a listen request with it, though no union has
			// that.
			want[fmt.Sprint(mcp.NotifyCancelled, " ", protocol.ToClient)] = protocol.KindNotification
		}
		for _, method := range []string{mcp.MethodSkillsList, mcp.MethodSkillsGet, mcp.MethodResourcesDirectoryRead} { // of an extension that no revision bounds
			want[fmt.Sprint(method, " ", protocol.ToServer)] = protocol.KindRequest
		}
		for _, m := range protocol.Methods() {
			for _, d := range []protocol.Direction{protocol.ToServer, protocol.ToClient} {
				key := fmt.Sprint(m.Name, " ", d)
				kind, ok := want[key]
				if ok != m.Allowed(d, r) || ok && kind != m.Kind {
					t.Errorf("%v %s: got allowed %v as kind %v, want %v as %v", r, key, m.Allowed(d, r), m.Kind, ok, kind)
				}
				delete(want, key)
			}
		}
		for key := range want {
			t.Errorf("%v: the table lacks %s", r, key)
		}
	}
}

func TestMethodTable(t *testing.T) {
	t.Parallel()
	for i, m := range protocol.Methods() {
		if m.Index != i || m.Name == "" {
			t.Errorf("method %d: got name %q and index %d", i, m.Name, m.Index)
		}
		if got, ok := protocol.LookupMethod([]byte(m.Name)); !ok || got != m {
			t.Errorf("look up %s: got %v, %v", m.Name, got, ok)
		}
		if isNotification := strings.HasPrefix(m.Name, "notifications/"); isNotification != (m.Kind == protocol.KindNotification) {
			t.Errorf("%s: got kind %v", m.Name, m.Kind)
		}
		if m.Kind == protocol.KindNotification && (m.Cancellable || m.Progress || m.Task != mcp.CapNone) {
			t.Errorf("%s: got a notification that is cancelled, reports or becomes a task", m.Name)
		}
		if decided := m.Rerun != 0; decided != (m.Kind == protocol.KindRequest && m.ToServer.Since != 0) {
			t.Errorf("%s: it is decided %v whether it may run again, which requests to the server need, and nothing else", m.Name, decided)
		}
		if m.Cancellable != (m.Kind == protocol.KindRequest && m.Name != mcp.MethodInitialize) {
			t.Errorf("%s: got cancellable %v", m.Name, m.Cancellable)
		}
	}
	for _, name := range []string{"", "tools", "Tools/list", "tools/list ", "rpc.x"} {
		if m, ok := protocol.LookupMethod(name); ok {
			t.Errorf("look up %q: got %s, want none", name, m.Name)
		}
	}
}

func TestMethodNeeds(t *testing.T) {
	t.Parallel()
	tests := []struct {
		method    string
		direction protocol.Direction
		revision  mcp.Revision
		want      mcp.Capability
	}{
		{mcp.MethodToolsCall, protocol.ToServer, mcp.Revision20241105, protocol.CapTools},
		{mcp.MethodCompletionComplete, protocol.ToServer, mcp.Revision20241105, mcp.CapNone},
		{mcp.MethodCompletionComplete, protocol.ToServer, mcp.Revision20250326, protocol.CapCompletions},
		{mcp.MethodResourcesSubscribe, protocol.ToServer, mcp.Revision20251125, protocol.CapResourcesSubscribe},
		{mcp.MethodTasksGet, protocol.ToServer, mcp.Revision20251125, protocol.CapTasks},
		{mcp.MethodTasksGet, protocol.ToClient, mcp.Revision20251125, mcp.CapClientTasks},
		{mcp.MethodTasksGet, protocol.ToServer, mcp.Revision20260728, protocol.CapTasksExtension},
		{mcp.MethodPing, protocol.ToClient, mcp.Revision20251125, mcp.CapNone},
		{mcp.NotifyRootsListChanged, protocol.ToServer, mcp.Revision20251125, mcp.CapClientRootsListChanged},
	}
	for _, tt := range tests {
		m, _ := protocol.LookupMethod(tt.method)
		if got := m.Needs(tt.direction, tt.revision); got != tt.want {
			t.Errorf("%s in %v: got %v, want %v", tt.method, tt.revision, got, tt.want)
		}
	}
}

// TestSeveralCapabilities joins capabilities by |.
func TestSeveralCapabilities(t *testing.T) {
	t.Parallel()
	want := mcp.CapClientSampling | mcp.CapClientRoots
	if got := want.String(); got != "roots, sampling" {
		t.Errorf("they are %s", got)
	}
	if got := slices.Collect(want.Each()); len(got) != 2 || got[0]|got[1] != want {
		t.Errorf("each is %v", got)
	}
	if some := (&mcp.ClientCapabilities{Roots: &mcp.ListChanged{}}); some.Has(want) || !some.Has(mcp.CapNone) {
		t.Error("a client with one of two has both, or lacks none")
	}
	if both := (&mcp.ClientCapabilities{Roots: &mcp.ListChanged{}, Sampling: &mcp.SamplingCapability{}}); !both.Has(want) || both.Has(want|protocol.CapTools) {
		t.Error("a client with two lacks them, or has one of servers")
	}
	if (mcp.Capability(1) << 15).String() != "" {
		t.Error("what is no capability has a path")
	}
}

// serverPaths has the members of a server's capability set for each of its capabilities, joined by dots; keys with dots stand last.
var serverPaths = map[mcp.Capability]string{
	protocol.CapTools:                "tools",
	protocol.CapToolsListChanged:     "tools.listChanged",
	protocol.CapPrompts:              "prompts",
	protocol.CapPromptsListChanged:   "prompts.listChanged",
	protocol.CapResources:            "resources",
	protocol.CapResourcesSubscribe:   "resources.subscribe",
	protocol.CapResourcesListChanged: "resources.listChanged",
	protocol.CapLogging:              "logging",
	protocol.CapCompletions:          "completions",
	protocol.CapTasks:                "tasks",
	protocol.CapTasksList:            "tasks.list",
	protocol.CapTasksCancel:          "tasks.cancel",
	protocol.CapTasksToolsCall:       "tasks.requests.tools.call",
	protocol.CapTasksExtension:       "extensions." + mcp.ExtensionTasks,
	protocol.CapSkills:               "extensions." + mcp.ExtensionSkills,
}

// TestCapabilitiesAreThoseOfTheSchemas finds every path in the schema of each revision that knows it, and declares it to check that Has
// and ServerHas agree.
func TestCapabilitiesAreThoseOfTheSchemas(t *testing.T) {
	t.Parallel()
	clients := 0
	for c := mcp.Capability(1); c.String() != ""; c <<= 1 {
		clients++
		checkCapability(t, c, c.String(), "ClientCapabilities")
	}
	if clients != 15 {
		t.Errorf("got %d capabilities of clients, want 15", clients)
	}
	for c, path := range serverPaths {
		checkCapability(t, c, path, "ServerCapabilities")
	}
}

func checkCapability(t *testing.T, c mcp.Capability, whole, def string) {
	t.Helper()
	path := strings.Split(whole, ".")
	if _, key, ok := strings.Cut(whole, "extensions."); ok {
		path = []string{"extensions", key}
	}
	for _, r := range mcp.Revisions() {
		if c == protocol.CapSkills || c == mcp.CapClientUI {
			break // clients of older revisions have it, too, though no schema of theirs has extensions
		}
		defs, _ := loadSchema(t, r.String())
		at := defs[def]
		for _, member := range path {
			if at = at.Properties[member]; at == nil || member == "extensions" {
				break
			}
		}
		if known := at != nil; known != protocol.KnownTo(c, r) {
			t.Errorf("%s of %s in %v: got known %v, want %v", whole, def, r, !known, known)
		}
	}
	declared := "true"
	if !strings.HasSuffix(whole, "listChanged") && !strings.HasSuffix(whole, "subscribe") {
		declared = "{}"
	}
	for i := range path {
		declared = fmt.Sprintf(`{%q:%s}`, path[len(path)-1-i], declared)
	}
	var server mcp.ServerCapabilities
	var client mcp.ClientCapabilities
	if protocol.ServerHas(&server, c) || client.Has(c) {
		t.Errorf("%s: got it from a side that declares nothing", whole)
	}
	var into any = &client
	if def == "ServerCapabilities" {
		into = &server
	}
	if err := codec.Unmarshal([]byte(declared), into); err != nil {
		t.Fatal(err)
	}
	if ofServer := def == "ServerCapabilities"; protocol.ServerHas(&server, c) != ofServer || client.Has(c) == ofServer {
		t.Errorf("%s: got server %v, client %v from %s", whole, protocol.ServerHas(&server, c), client.Has(c), declared)
	}
}

func TestElicitationModes(t *testing.T) {
	t.Parallel()
	for text, want := range map[string][2]bool{
		`{}`:                                   {false, false},
		`{"elicitation":{}}`:                   {true, false},
		`{"elicitation":{"form":{}}}`:          {true, false},
		`{"elicitation":{"url":{}}}`:           {false, true},
		`{"elicitation":{"form":{},"url":{}}}`: {true, true},
		`{"elicitation":null}`:                 {false, false},
		`{"elicitation":{"url":null}}`:         {true, false},
	} {
		var c mcp.ClientCapabilities
		if err := codec.Unmarshal([]byte(text), &c); err != nil {
			t.Errorf("%s: %v", text, err)
		}
		got := [2]bool{c.Has(mcp.CapClientElicitationForm), c.Has(mcp.CapClientElicitationURL)}
		if got != want {
			t.Errorf("%s: got form and url %v, want %v", text, got, want)
		}
	}
}

func TestErrorTable(t *testing.T) {
	t.Parallel()
	codes, names := map[int]bool{}, map[string]bool{}
	for _, info := range protocol.ErrorInfos() {
		if codes[info.Code] || names[info.Name] {
			t.Errorf("got %d %s twice", info.Code, info.Name)
		}
		codes[info.Code], names[info.Name] = true, true
		if mcp.NewError(info.Code, "").Message == "" || info.Doc == "" || info.HTTPStatus < 200 || info.StatelessStatus < 200 {
			t.Errorf("%s: got an incomplete entry %+v", info.Name, info)
		}
		if got, ok := protocol.LookupError(info.Code); !ok || got != info {
			t.Errorf("look up %d: got %+v, %v", info.Code, got, ok)
		}
	}
	for _, code := range []int{-32700, -32600, -32601, -32602, -32603, -32002, -32010, -32011, -32020, -32021, -32022, -32042, -1} {
		if !codes[code] {
			t.Errorf("the table lacks %d", code)
		}
	}
	if _, ok := protocol.LookupError(7); ok {
		t.Error("got an entry for a code nobody defined")
	}
}

func TestError(t *testing.T) {
	t.Parallel()
	err := fmt.Errorf("call: %w", mcp.NewError(mcp.CodeResourceNotFound, "").WithData(map[string]string{"uri": "file:///<a>"}))
	var wire *mcp.Error
	if !errors.As(err, &wire) || !errors.Is(err, mcp.NewError(mcp.CodeResourceNotFound, "other text")) || errors.Is(err, mcp.NewError(-1, "")) {
		t.Errorf("got %v, want it found by type and by code", err)
	}
	if got, want := string(wire.Data), `{"uri":"file:///<a>"}`; got != want {
		t.Errorf("got data %s, want %s", got, want)
	}
	if got := wire.WithData(make(chan int)); got.Data != nil || got.Code != wire.Code || wire.Data == nil {
		t.Errorf("got %+v, want the error without data, the original untouched", got)
	}
	if got := mcp.NewError(mcp.CodeMethodNotFound, ""); protocol.HTTPStatus(got, mcp.Revision20251125) != 200 || protocol.HTTPStatus(got, mcp.Revision20260728) != 404 {
		t.Error("method not found: want 200 in the legacy era, 404 in the stateless one")
	}
	if got := mcp.NewError(12, "m"); protocol.HTTPStatus(got, mcp.Latest) != 200 || got.Message != "m" {
		t.Errorf("got %+v with status %d", got, protocol.HTTPStatus(got, mcp.Latest))
	}
	first := mcp.ElicitURLsFirst(mcp.ElicitURL{Message: "m", ElicitationID: "e", URL: "https://x.example/?a&b"})
	want := `{"elicitations":[{"mode":"url","message":"m","elicitationId":"e","url":"https://x.example/?a&b"}]}`
	if first.Code != mcp.CodeURLElicitationRequired || string(first.Data) != want {
		t.Errorf("got %d with %s\nwant %s", first.Code, first.Data, want)
	}
	if got := mcp.ElicitURLsFirst().Data; string(got) != `{"elicitations":[]}` {
		t.Errorf("got %s, want an empty list", got)
	}
}
