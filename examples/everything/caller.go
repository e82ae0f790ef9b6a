package everything

import (
	"cmp"
	"context"
	"slices"
	"strings"
	"time"

	"github.com/troupe-run/troupe"
)

// writeScope is what the tool guarded needs.
const writeScope = "demo:write"

// caller is what whoami answers.
type caller struct {
	Anonymous bool       `json:"anonymous,omitempty" jsonschema:"nobody has said who calls"`
	Issuer    string     `json:"issuer,omitempty"`
	Subject   string     `json:"subject,omitempty"`
	Client    string     `json:"client,omitempty"`
	Machine   bool       `json:"machine,omitempty" jsonschema:"a program calls, for nobody"`
	Scopes    []string   `json:"scopes,omitempty"`
	Expires   *time.Time `json:"expires,omitempty" jsonschema:"when the access token or the API key ends"`
}

// addCaller adds tools that say who calls, and that not everybody may call. guarded asks for its scope itself, as a call's arguments may decide what it needs.
// Where the server takes no tokens nobody has the scope, and guarded stays listed and refuses everybody but over stdio: a tool that opens when nobody is
// asked for a token would be open by a mistake in the settings, and one that hides would say nothing of scopes to whoever tries the demo.
func addCaller(s *troupe.Server) {
	troupe.AddTool(s, troupe.Tool{Name: "whoami", Description: "Says who calls, by the access token or the API key of the request.", Rerun: troupe.Safe},
		func(_ context.Context, call *troupe.Call, _ struct{}) (caller, error) {
			p := call.Principal()
			who := caller{Anonymous: p.Subject == "", Issuer: p.Issuer, Subject: p.Subject, Client: p.Client, Machine: p.Machine, Scopes: slices.Sorted(slices.Values(p.Scopes))}
			if !p.Expires.IsZero() {
				at := p.Expires.UTC()
				who.Expires = &at
			}
			return who, nil
		})
	troupe.AddTool(s, troupe.Tool{Name: "guarded", Description: "Answers only callers that have the scope " + writeScope + ". Others are told to ask for it.", Rerun: troupe.Safe},
		func(_ context.Context, call *troupe.Call, _ struct{}) (string, error) {
			if err := call.Require(writeScope); err != nil {
				return "", err
			}
			scopes := slices.Sorted(slices.Values(call.Principal().Scopes))
			return "written by " + cmp.Or(strings.Join(scopes, " "), "the program that has started this one"), nil
		})
}

// ConformanceIssuer is the issuer of the tokens by which the official conformance suite asks for scopes. The server that trusts it has its tokens carry the
// scopes of [ConformanceScopes], or fewer; callers of other issuers, and those without a token, need none of them.
const ConformanceIssuer = "http://127.0.0.1/mcp-conformance"

// ConformanceScopes are all that the suite has servers ask for.
func ConformanceScopes() []string {
	return []string{
		"mcp:conformance:tools:call", "mcp:conformance:tools:test_simple_text", "mcp:conformance:resources:read", "mcp:conformance:resources:static",
		"mcp:conformance:resources:template:123", "mcp:conformance:prompts:get", "mcp:conformance:prompts:test_simple_prompt",
	}
}

// requireOfSuite requires scopes of the suite's own callers.
func requireOfSuite(call *troupe.Call, method, of string) error {
	if call.Principal().Issuer != ConformanceIssuer {
		return nil
	}
	kind, _, _ := strings.Cut(method, ":")
	return call.Require("mcp:conformance:"+method, "mcp:conformance:"+kind+":"+of)
}
