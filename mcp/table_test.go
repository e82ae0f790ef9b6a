package mcp_test

import (
	"errors"
	"fmt"
	"slices"
	"strings"
	"testing"

	"github.com/troupe-run/troupe/codec"
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
		if r.Stateless() == r.Has(mcp.FeatureSessions) {
			t.Errorf("%v: got stateless %v, want the opposite of having sessions", r, r.Stateless())
		}
	}
	for _, s := range []string{"", "2025-11-26", "2025-11-25 ", "1.0.0", "DRAFT-2026"} {
		if r, ok := mcp.ParseRevision(s); ok {
			t.Errorf("parse %q: got %v, want none", s, r)
		}
	}
	for _, r := range []mcp.Revision{0, mcp.Latest + 1, 255} {
		if r.String() != "" || r.Valid() || r.Stateless() || r.Has(mcp.FeatureSessions) || r.Has(mcp.FeatureListen) {
			t.Errorf("revision %d: got a name, an era or a feature, want none", uint8(r))
		}
	}
	if mcp.Latest.Has(mcp.Feature(255)) {
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
		if got := mcp.Negotiate(tt.requested, tt.supported); got != tt.want {
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
		want := map[string]mcp.Kind{} // "method direction"
		add := func(union string, d mcp.Direction, k mcp.Kind) {
			members := defs[union].AnyOf
			if members == nil {
				members = []*schema{{Ref: "/" + union}} // a union of one member is that member
			}
			for _, m := range members {
				method := defs[m.ref()].Properties["method"].Const.(string)
				want[fmt.Sprint(method, " ", d)] = k
			}
		}
		add("ClientRequest", mcp.ToServer, mcp.KindRequest)
		add("ClientNotification", mcp.ToServer, mcp.KindNotification)
		add("ServerNotification", mcp.ToClient, mcp.KindNotification)
		if defs["ServerRequest"] != nil {
			add("ServerRequest", mcp.ToClient, mcp.KindRequest)
		}
		if r.Has(mcp.FeatureTasksExtension) {
			for _, method := range []string{mcp.MethodTasksGet, mcp.MethodTasksCancel, mcp.MethodTasksUpdate} {
				want[fmt.Sprint(method, " ", mcp.ToServer)] = mcp.KindRequest
			}
			want[fmt.Sprint(mcp.NotifyTasks, " ", mcp.ToClient)] = mcp.KindNotification
			// Over stdio the server ends a listen request with it, though no union has
			// that.
			want[fmt.Sprint(mcp.NotifyCancelled, " ", mcp.ToClient)] = mcp.KindNotification
		}
		for _, method := range []string{mcp.MethodSkillsList, mcp.MethodSkillsGet, mcp.MethodResourcesDirectoryRead} { // of an extension that no revision bounds
			want[fmt.Sprint(method, " ", mcp.ToServer)] = mcp.KindRequest
		}
		for _, m := range mcp.Methods() {
			for _, d := range []mcp.Direction{mcp.ToServer, mcp.ToClient} {
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
	for i, m := range mcp.Methods() {
		if m.Index != i || m.Name == "" {
			t.Errorf("method %d: got name %q and index %d", i, m.Name, m.Index)
		}
		if got, ok := mcp.LookupMethod([]byte(m.Name)); !ok || got != m {
			t.Errorf("look up %s: got %v, %v", m.Name, got, ok)
		}
		if isNotification := strings.HasPrefix(m.Name, "notifications/"); isNotification != (m.Kind == mcp.KindNotification) {
			t.Errorf("%s: got kind %v", m.Name, m.Kind)
		}
		if m.Kind == mcp.KindNotification && (m.Cancellable || m.Progress || m.Task != mcp.CapNone) {
			t.Errorf("%s: got a notification that is cancelled, reports or becomes a task", m.Name)
		}
		if m.Cancellable != (m.Kind == mcp.KindRequest && m.Name != mcp.MethodInitialize) {
			t.Errorf("%s: got cancellable %v", m.Name, m.Cancellable)
		}
	}
	for _, name := range []string{"", "tools", "Tools/list", "tools/list ", "rpc.x"} {
		if m, ok := mcp.LookupMethod(name); ok {
			t.Errorf("look up %q: got %s, want none", name, m.Name)
		}
	}
}

func TestMethodNeeds(t *testing.T) {
	t.Parallel()
	tests := []struct {
		method    string
		direction mcp.Direction
		revision  mcp.Revision
		want      mcp.Capability
	}{
		{mcp.MethodToolsCall, mcp.ToServer, mcp.Revision20241105, mcp.CapTools},
		{mcp.MethodCompletionComplete, mcp.ToServer, mcp.Revision20241105, mcp.CapNone},
		{mcp.MethodCompletionComplete, mcp.ToServer, mcp.Revision20250326, mcp.CapCompletions},
		{mcp.MethodResourcesSubscribe, mcp.ToServer, mcp.Revision20251125, mcp.CapResourcesSubscribe},
		{mcp.MethodTasksGet, mcp.ToServer, mcp.Revision20251125, mcp.CapTasks},
		{mcp.MethodTasksGet, mcp.ToClient, mcp.Revision20251125, mcp.CapClientTasks},
		{mcp.MethodTasksGet, mcp.ToServer, mcp.Revision20260728, mcp.CapTasksExtension},
		{mcp.MethodPing, mcp.ToClient, mcp.Revision20251125, mcp.CapNone},
		{mcp.NotifyRootsListChanged, mcp.ToServer, mcp.Revision20251125, mcp.CapClientRootsListChanged},
	}
	for _, tt := range tests {
		m, _ := mcp.LookupMethod(tt.method)
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
	if both := (&mcp.ClientCapabilities{Roots: &mcp.ListChanged{}, Sampling: &mcp.SamplingCapability{}}); !both.Has(want) || both.Has(want|mcp.CapTools) {
		t.Error("a client with two lacks them, or has one of servers")
	}
	if (mcp.Capability(1)<<31).String() != "" || want.Info() != (mcp.CapabilityInfo{}) {
		t.Error("what is not one capability has a description")
	}
}

// TestCapabilitiesAreThoseOfTheSchemas finds every path in the schema of the first
// revision that knows it, and declares it to check that Has agrees.
func TestCapabilitiesAreThoseOfTheSchemas(t *testing.T) {
	t.Parallel()
	schemas := map[mcp.Revision]map[string]*schema{}
	for _, r := range mcp.Revisions() {
		schemas[r], _ = loadSchema(t, r.String())
	}
	for c := mcp.Capability(1); c.String() != ""; c <<= 1 {
		info := c.Info()
		path := strings.Split(info.Path, ".")
		if _, key, ok := strings.Cut(info.Path, "extensions."); ok {
			path = []string{"extensions", key}
		}
		def := map[mcp.Side]string{mcp.ServerSide: "ServerCapabilities", mcp.ClientSide: "ClientCapabilities"}[info.Side]
		for _, r := range mcp.Revisions() {
			at := schemas[r][def]
			for _, member := range path {
				if at = at.Properties[member]; at == nil || member == "extensions" {
					break
				}
			}
			if c == mcp.CapSkills || c == mcp.CapClientUI {
				break // clients of older revisions have it, too, though no schema of theirs has extensions
			}
			if known := at != nil; known != info.Span.Includes(r) {
				t.Errorf("%s of %s in %v: got known %v, want %v", info.Path, def, r, info.Span.Includes(r), known)
			}
		}

		declared := "true"
		if !strings.HasSuffix(info.Path, "listChanged") && !strings.HasSuffix(info.Path, "subscribe") {
			declared = "{}"
		}
		for i := range path {
			declared = fmt.Sprintf(`{%q:%s}`, path[len(path)-1-i], declared)
		}
		var server mcp.ServerCapabilities
		var client mcp.ClientCapabilities
		if info.Side == mcp.ServerSide {
			if server.Has(c) {
				t.Errorf("%s: got it from a server that declares nothing", info.Path)
			}
			if err := codec.Unmarshal([]byte(declared), &server); err != nil {
				t.Fatal(err)
			}
		} else {
			if client.Has(c) {
				t.Errorf("%s: got it from a client that declares nothing", info.Path)
			}
			if err := codec.Unmarshal([]byte(declared), &client); err != nil {
				t.Fatal(err)
			}
		}
		if server.Has(c) != (info.Side == mcp.ServerSide) || client.Has(c) != (info.Side == mcp.ClientSide) {
			t.Errorf("%s: got server %v, client %v from %s", info.Path, server.Has(c), client.Has(c), declared)
		}
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
	for _, info := range mcp.ErrorInfos() {
		if codes[info.Code] || names[info.Name] {
			t.Errorf("got %d %s twice", info.Code, info.Name)
		}
		codes[info.Code], names[info.Name] = true, true
		if info.Message == "" || info.Doc == "" || info.HTTPStatus < 200 || info.StatelessStatus < 200 {
			t.Errorf("%s: got an incomplete entry %+v", info.Name, info)
		}
		if got, ok := mcp.LookupError(info.Code); !ok || got != info {
			t.Errorf("look up %d: got %+v, %v", info.Code, got, ok)
		}
	}
	for _, code := range []int{-32700, -32600, -32601, -32602, -32603, -32002, -32010, -32011, -32020, -32021, -32022, -32042, -1} {
		if !codes[code] {
			t.Errorf("the table lacks %d", code)
		}
	}
	if _, ok := mcp.LookupError(7); ok {
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
	if got := mcp.NewError(mcp.CodeMethodNotFound, ""); got.HTTPStatus(mcp.Revision20251125) != 200 || got.HTTPStatus(mcp.Revision20260728) != 404 {
		t.Error("method not found: want 200 in the legacy era, 404 in the stateless one")
	}
	if got := mcp.NewError(12, "m"); got.HTTPStatus(mcp.Latest) != 200 || got.Message != "m" {
		t.Errorf("got %+v with status %d", got, got.HTTPStatus(mcp.Latest))
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
