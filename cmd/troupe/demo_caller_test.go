package main_test

import (
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/troupe-run/troupe"
	"github.com/troupe-run/troupe/examples/everything"
	"github.com/troupe-run/troupe/mcp"
	"github.com/troupe-run/troupe/troupetest"
)

// TestCaller has the demo say who calls, and answer guarded to who has its scope alone.
func TestCaller(t *testing.T) {
	t.Parallel()
	ends := time.Date(2100, 1, 2, 3, 4, 5, 0, time.FixedZone("", 3600))
	for name, row := range map[string]struct {
		caller      troupe.Principal
		who, writes string
	}{
		"anonymous": {troupe.Principal{}, `{"anonymous":true}`, ""},
		"a user who may read": {
			troupe.Principal{Issuer: "https://id.example.com", Subject: "ada", Client: "editor", Scopes: []string{"demo:read"}, Expires: ends},
			`{"issuer":"https://id.example.com","subject":"ada","client":"editor","scopes":["demo:read"],"expires":"2100-01-02T02:04:05Z"}`, "",
		},
		"a machine that may write": {
			troupe.Principal{Issuer: "https://id.example.com", Subject: "ci", Client: "ci", Machine: true, Scopes: []string{"demo:write", "demo:read"}},
			`{"issuer":"https://id.example.com","subject":"ci","client":"ci","machine":true,"scopes":["demo:read","demo:write"]}`, "written by demo:read demo:write",
		},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			c := troupetest.Connect(t, everything.New(), troupetest.Options{Principal: row.caller})
			got, err := c.CallTool(t.Context(), "whoami", nil)
			if err != nil || string(got.StructuredContent) != row.who {
				t.Errorf("whoami: %+v, %v, want %s", got, err, row.who)
			}
			got, err = c.CallTool(t.Context(), "guarded", nil)
			switch {
			case row.writes == "" && (err == nil || !strings.Contains(err.Error(), "the access token lacks a scope")):
				t.Errorf("guarded: %+v, %v, and is to be refused", got, err)
			case row.writes != "" && (err != nil || !cmp.Equal(got.Content, mcp.Contents{mcp.Text(row.writes)})):
				t.Errorf("guarded: %+v, %v, want %s", got, err, row.writes)
			}
		})
	}
}
