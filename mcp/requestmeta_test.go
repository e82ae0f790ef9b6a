package mcp_test

import (
	"encoding/json"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/troupe-run/troupe/internal/protocol"
	"github.com/troupe-run/troupe/mcp"
)

func TestRequestMeta(t *testing.T) {
	t.Parallel()
	const (
		version = `"io.modelcontextprotocol/protocolVersion":"2026-07-28"`
		caps    = `"io.modelcontextprotocol/clientCapabilities":{"roots":{}}`
		info    = `"io.modelcontextprotocol/clientInfo":{"name":"c","version":"1"}`
	)
	type row struct {
		meta, fault string // a part of the message of the refusal
		want        mcp.RequestMeta
	}
	known := mcp.RequestMeta{Version: []byte("2026-07-28"), Revision: mcp.Revision20260728, Capabilities: []byte(`{"roots":{}}`)}
	with := func(change func(*mcp.RequestMeta)) mcp.RequestMeta {
		q := known
		change(&q)
		return q
	}
	for name, tt := range map[string]row{
		"all": {`{` + version + `, "x": {"a":[1]} ,` + caps + `,` + info + `,"io.modelcontextprotocol/logLevel":"warning","progressToken":1}`, "",
			with(func(q *mcp.RequestMeta) {
				q.ClientInfo, q.LogLevel = []byte(`{"name":"c","version":"1"}`), mcp.LevelWarning
			})},
		"the least":            {`{` + caps + `,` + version + `}`, "", known},
		"a name with escapes":  {`{"io.modelcontextprotocol\/protocolVersion":"2026-07-28",` + caps + `}`, "", known},
		"a value with escapes": {`{"io.modelcontextprotocol/protocolVersion":"\u0032026-07-28",` + caps + `}`, "", known},
		"twice":                {`{"io.modelcontextprotocol/protocolVersion":"x",` + caps + `,` + version + `}`, "", known},
		"an unknown version": {`{"io.modelcontextprotocol/protocolVersion":"v999.0.0",` + caps + `}`, "",
			with(func(q *mcp.RequestMeta) { q.Version, q.Revision = []byte("v999.0.0"), 0 })},
		"nothing":                 {``, "protocolVersion", mcp.RequestMeta{}},
		"null":                    {`null`, "protocolVersion", mcp.RequestMeta{}},
		"empty":                   {`{}`, "protocolVersion", mcp.RequestMeta{}},
		"no version":              {`{` + caps + `}`, "protocolVersion", mcp.RequestMeta{Capabilities: known.Capabilities}},
		"a version that is none":  {`{"io.modelcontextprotocol/protocolVersion":20260728,` + caps + `}`, "protocolVersion", mcp.RequestMeta{Capabilities: known.Capabilities}},
		"no capabilities":         {`{` + version + `}`, "clientCapabilities", with(func(q *mcp.RequestMeta) { q.Capabilities = nil })},
		"null capabilities":       {`{` + version + `,"io.modelcontextprotocol/clientCapabilities":null}`, "clientCapabilities", with(func(q *mcp.RequestMeta) { q.Capabilities = nil })},
		"client info is a string": {`{` + version + `,` + caps + `,"io.modelcontextprotocol/clientInfo":"c"}`, "clientInfo", known},
		"no log level":            {`{` + version + `,` + caps + `,"io.modelcontextprotocol/logLevel":"loud"}`, "logLevel", known},
		"null log level":          {`{` + version + `,` + caps + `,"io.modelcontextprotocol/logLevel":null}`, "logLevel", known},
		"numeric log level":       {`{` + version + `,` + caps + `,"io.modelcontextprotocol/logLevel":7}`, "logLevel", known},
	} {
		got, err := mcp.ReadRequestMeta([]byte(tt.meta))
		switch {
		case tt.fault == "" && err != nil:
			t.Errorf("%s: %v", name, err)
		case tt.fault != "" && (err == nil || err.Code != mcp.CodeInvalidParams || !strings.HasSuffix(err.Message, "io.modelcontextprotocol/"+tt.fault)):
			t.Errorf("%s: got %v, want it refused for %s", name, err, tt.fault)
		}
		if diff := cmp.Diff(tt.want, got); diff != "" {
			t.Errorf("%s: %s", name, diff)
		}
	}
	for _, l := range []mcp.LoggingLevel{"debug", "info", "notice", "warning", "error", "critical", "alert", "emergency"} {
		q, err := mcp.ReadRequestMeta([]byte(`{` + version + `,` + caps + `,"io.modelcontextprotocol/logLevel":"` + string(l) + `"}`))
		if err != nil || q.LogLevel != l {
			t.Errorf("level %s: got %q, %v", l, q.LogLevel, err)
		}
	}
}

// FuzzRequestMeta checks that the fields it reads lie inside of the input, whatever
// that is.
func FuzzRequestMeta(f *testing.F) {
	for _, seed := range []string{`{"io.modelcontextprotocol/protocolVersion":"2026-07-28","io.modelcontextprotocol/clientCapabilities":{}}`,
		`{"io.modelcontextprotocol/protocolVersion":"`, `{"io.modelcontextprotocol/logLevel":"\`, `{"io.modelcontextprotocol/clientInfo":{`, `[`, `{"a":`} {
		f.Add([]byte(seed))
	}
	f.Fuzz(func(t *testing.T, data []byte) {
		q, err := mcp.ReadRequestMeta(data)
		if err == nil && (q.Version == nil || q.Capabilities[0] != '{' || q.LogLevel != "" && !q.LogLevel.Valid()) {
			t.Errorf("got %+v", q)
		}
	})
}

func TestMetaOfStreamsAndResults(t *testing.T) {
	t.Parallel()
	for _, id := range []mcp.RequestID{mcp.RequestID("0"), mcp.RequestID(`"listen-1"`), mcp.RequestID(`9007199254740993`)} {
		m := mcp.Meta{"a": mcp.Raw(1), mcp.MetaSubscriptionID: mcp.Raw(id)}
		if got, ok := m.SubscriptionID(); !ok || got.String() != id.String() || string(mcp.Raw(m)) != `{"a":1,"io.modelcontextprotocol/subscriptionId":`+id.String()+`}` {
			t.Errorf("got %s of %s", got, m)
		}
	}
	for _, none := range []mcp.Meta{nil, {}, {mcp.MetaSubscriptionID: nil}, {mcp.MetaSubscriptionID: json.RawMessage("null")}, {mcp.MetaSubscriptionID: json.RawMessage("[1]")}} {
		if id, ok := none.SubscriptionID(); ok {
			t.Errorf("got the id %s of %s", id, mcp.Raw(none))
		}
	}
	info := mcp.Implementation{Name: "<s>", Version: "1"}
	for meta, want := range map[string]string{
		`null`:    `{"io.modelcontextprotocol/serverInfo":{"name":"<s>","version":"1"}}`,
		`{"a":1}`: `{"a":1,"io.modelcontextprotocol/serverInfo":{"name":"<s>","version":"1"}}`,
		`{"io.modelcontextprotocol/serverInfo":{"name":"own","version":"2"}}`: `{"io.modelcontextprotocol/serverInfo":{"name":"own","version":"2"}}`,
	} {
		var m mcp.Meta
		if err := json.Unmarshal([]byte(meta), &m); err != nil {
			t.Fatal(err)
		}
		before := string(mcp.Raw(m))
		if got := string(mcp.Raw(m.WithServerInfo(info))); got != want {
			t.Errorf("got %s, want %s", got, want)
		}
		if after := string(mcp.Raw(m)); after != before {
			t.Errorf("the caller's _meta has changed from %s to %s", before, after)
		}
	}
}

func TestFilterWithinCapabilities(t *testing.T) {
	t.Parallel()
	all := mcp.SubscriptionFilter{ToolsListChanged: true, PromptsListChanged: true, ResourcesListChanged: true, ResourceSubscriptions: []string{"x:1"}}
	changed := &mcp.ListChanged{ListChanged: true}
	for name, tt := range map[string]struct {
		server mcp.ServerCapabilities
		want   mcp.SubscriptionFilter
	}{
		"nothing":       {mcp.ServerCapabilities{Tools: &mcp.ListChanged{}, Resources: &mcp.ResourcesCapability{}}, mcp.SubscriptionFilter{}},
		"tools":         {mcp.ServerCapabilities{Tools: changed}, mcp.SubscriptionFilter{ToolsListChanged: true}},
		"prompts":       {mcp.ServerCapabilities{Prompts: changed}, mcp.SubscriptionFilter{PromptsListChanged: true}},
		"resources":     {mcp.ServerCapabilities{Resources: &mcp.ResourcesCapability{ListChanged: true}}, mcp.SubscriptionFilter{ResourcesListChanged: true}},
		"subscriptions": {mcp.ServerCapabilities{Resources: &mcp.ResourcesCapability{Subscribe: true}}, mcp.SubscriptionFilter{ResourceSubscriptions: []string{"x:1"}}},
		"all":           {mcp.ServerCapabilities{Tools: changed, Prompts: changed, Resources: &mcp.ResourcesCapability{Subscribe: true, ListChanged: true}}, all},
	} {
		if diff := cmp.Diff(tt.want, protocol.FilterWithin(all, &tt.server)); diff != "" {
			t.Errorf("%s: %s", name, diff)
		}
		if diff := cmp.Diff(mcp.SubscriptionFilter{}, protocol.FilterWithin(mcp.SubscriptionFilter{}, &tt.server)); diff != "" {
			t.Errorf("%s: what nobody asked for: %s", name, diff)
		}
	}
}

func TestErrorsOfEachRevision(t *testing.T) {
	t.Parallel()
	missing := mcp.NewError(mcp.CodeResourceNotFound, "").WithData(protocol.ResourceNotFoundData{URI: "x:1"})
	lacking := func(code int) *mcp.Error {
		return mcp.NewError(code, "").WithData(map[string]any{"requiredCapabilities": map[string]any{"sampling": map[string]any{}}})
	}
	urls := mcp.ElicitURLsFirst(mcp.ElicitURL{URL: "https://x.example/"})
	for _, r := range mcp.Revisions() {
		for _, tt := range []struct {
			e                   *mcp.Error
			sessions, stateless int
		}{
			{missing, mcp.CodeResourceNotFound, mcp.CodeInvalidParams},
			{urls, mcp.CodeURLElicitationRequired, mcp.CodeInvalidRequest},
			{lacking(mcp.CodeMissingCapability), mcp.CodeInvalidRequest, mcp.CodeMissingCapability},
			{lacking(mcp.CodeInvalidRequest), mcp.CodeInvalidRequest, mcp.CodeMissingCapability},
			{mcp.NewError(mcp.CodeInvalidRequest, ""), mcp.CodeInvalidRequest, mcp.CodeInvalidRequest},
			{mcp.NewError(mcp.CodeInternalError, ""), mcp.CodeInternalError, mcp.CodeInternalError},
			{mcp.NewError(7, "x"), 7, 7},
		} {
			got, want := protocol.ErrorFor(tt.e, r), tt.sessions
			if r.Stateless() {
				want = tt.stateless
			}
			if got.Code != want || got.Message != tt.e.Message || string(got.Data) != string(tt.e.Data) || want == tt.e.Code && got != tt.e {
				t.Errorf("%v: got %+v of %+v, want code %d", r, got, tt.e, want)
			}
		}
	}
	if string(missing.Data) != `{"uri":"x:1"}` {
		t.Errorf("got data %s", missing.Data)
	}
}
