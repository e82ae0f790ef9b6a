package session

import (
	"encoding/json"
	"fmt"
	"reflect"
	"strings"
	"testing"

	"github.com/troupe-run/troupe/mcp"
)

const maxClient = 8 << 10

// TestKeep checks what a session keeps of its client, and what it leaves out first.
func TestKeep(t *testing.T) {
	t.Parallel()
	long := strings.Repeat("x", maxClient)
	big := func(n int) string { return `{"x":"` + strings.Repeat("x", n) + `"}` }
	most := maxClient - len(`{"name":"","version":"1"}{}`)
	for _, tt := range []struct{ name, info, caps, keptInfo, keptCaps string }{
		{"all of a usual one", `{"name":"n","title":"t","version":"1"}`, `{"roots":{"listChanged":true},"sampling":{"tools":{}},"elicitation":{"form":{},"url":{}}}`, "", ""},
		{"no icons", `{"name":"n","version":"1","description":"d","websiteUrl":"https://x.example","icons":[{"src":"data:,` + long + `"}]}`, `{}`, `{"name":"n","version":"1"}`, ""},
		{"what a program defines", `{"name":"n","version":"1"}`, `{"experimental":{"a":{"b":[1]}},"extensions":{"c/d":{}},"mine":7}`, "", ""},
		{"contents of known ones", `{"name":"n","version":"1"}`, `{"elicitation":{"form":{"a":1}},"tasks":{"list":{},"requests":{"sampling":{"createMessage":{"b":2}},"elicitation":{}}}}`, "", ""},
		{"the longest name", `{"name":"` + strings.Repeat("n", most) + `","version":"1"}`, `{}`, "", ""},
		{"a name that leaves no room", `{"name":"` + strings.Repeat("n", most-100) + `","title":"` + long + `","version":"1"}`, `{"roots":{},"sampling":{"context":{"a":"` + long + `"},"tools":{}},"experimental":{"a":` + big(200) + `}}`,
			`{"name":"` + strings.Repeat("n", most-100) + `","version":"1"}`, `{"roots":{},"sampling":{"context":{},"tools":{}}}`},
		{"experimental before extensions before others", `{"name":"n","version":"1"}`, `{"elicitation":{},"others":` + big(300) + `,"extensions":{"e":` + big(4000) + `},"experimental":{"c":` + big(4000) + `,"d":` + big(5000) + `,"f":{}}}`,
			"", `{"elicitation":{},"experimental":{"c":` + big(4000) + `,"f":{}},"extensions":{"e":` + big(4000) + `}}`},
		{"the title before experimental", `{"name":"n","title":"` + strings.Repeat("t", 5000) + `","version":"1"}`, `{"experimental":{"a":` + big(4000) + `,"b":` + big(2000) + `}}`,
			"", `{"experimental":{"b":` + big(2000) + `}}`},
		{"deep objects of all known ones", `{"name":"n","version":"1"}`, `{"tasks":{"list":` + big(9000) + `,"cancel":{},"requests":{"sampling":{"createMessage":` + big(9000) + `},"elicitation":{"create":{}}}},"elicitation":{"form":{},"url":` + big(9000) + `}}`,
			"", `{"elicitation":{"form":{},"url":{}},"tasks":{"list":{},"cancel":{},"requests":{"sampling":{"createMessage":{}},"elicitation":{"create":{}}}}}`},
	} {
		t.Run(tt.name, func(t *testing.T) {
			info, caps, ok := kept(t, tt.info, tt.caps)
			if !ok {
				t.Fatal("refused")
			}
			if tt.keptInfo == "" && !strings.Contains(tt.info, long) {
				tt.keptInfo = tt.info
			}
			if tt.keptCaps == "" {
				tt.keptCaps = tt.caps
			}
			if !sameJSON(t, info, tt.keptInfo) {
				t.Errorf("of clientInfo: %.300s\nwant %.300s", info, tt.keptInfo)
			}
			if !sameJSON(t, caps, tt.keptCaps) {
				t.Errorf("of capabilities: %.300s\nwant %.300s", caps, tt.keptCaps)
			}
		})
	}
	for _, info := range []string{`{"name":"` + strings.Repeat("n", most+1) + `","version":"1"}`, `{"name":"n","version":"` + long + `"}`} {
		if _, _, ok := kept(t, info, `{}`); ok {
			t.Errorf("a name or version that does not fit is kept: %.100s", info)
		}
	}
}

// TestKeptIsBounded fills the room to every byte.
func TestKeptIsBounded(t *testing.T) {
	t.Parallel()
	for n := 0; n < 200; n += 9 {
		var caps strings.Builder
		for i := range 300 {
			fmt.Fprintf(&caps, `,"k%d":{"a":"\u00e9%s"}`, i, strings.Repeat("<", (i*n)%90))
		}
		members := "{" + caps.String()[1:] + "}"
		for _, declared := range []string{`{"experimental":` + members + `}`, `{"extensions":` + members + `}`, members, `{"experimental":` + members + `,"extensions":` + members + `,"z":1}`} {
			info, caps, ok := kept(t, `{"name":"n\"","title":"`+strings.Repeat("é", n)+`","version":"1"}`, declared)
			if got := len(info) + len(caps); !ok || got > maxClient || got < maxClient-200 && len(declared) > maxClient {
				t.Errorf("%d of %d bytes are kept, at most %d may be", got, len(declared), maxClient)
			}
			if !json.Valid(caps) {
				t.Errorf("not JSON: %.200s", caps)
			}
		}
	}
}

func kept(t *testing.T, clientInfo, capabilities string) (info, caps []byte, ok bool) {
	t.Helper()
	var p mcp.InitializeParams
	if err := json.Unmarshal([]byte(`{"protocolVersion":"2025-11-25","capabilities":`+capabilities+`,"clientInfo":`+clientInfo+`}`), &p); err != nil {
		t.Fatal(err)
	}
	return KeepClient(&p, maxClient)
}

func sameJSON(t *testing.T, got []byte, want string) bool {
	t.Helper()
	var a, b any
	if err := json.Unmarshal(got, &a); err != nil {
		t.Fatalf("%v: %.300s", err, got)
	}
	if err := json.Unmarshal([]byte(want), &b); err != nil {
		t.Fatalf("%v: %.300s", err, want)
	}
	return reflect.DeepEqual(a, b)
}
