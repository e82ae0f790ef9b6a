package official

import (
	"slices"
	"strings"
	"testing"
)

// TestStatelessConformanceIsChecked checks that Check refuses messages: a schema that
// accepts everything would be no check.
func TestStatelessConformanceIsChecked(t *testing.T) {
	t.Parallel()
	spec, err := Of(sessionless)
	if err != nil {
		t.Fatal(err)
	}
	if spec == nil {
		t.Skip("the official schema is not here (set TROUPE_SPEC_DIR)")
	}
	for message, methods := range map[string]string{ // methods for which the message is legal
		`{"jsonrpc":"2.0","id":1,"result":{"content":[]}}`:                                                         "",
		`{"jsonrpc":"2.0","id":1,"result":{"resultType":"complete","content":[],"structuredContent":null}}`:        "tools/call",
		`{"jsonrpc":"2.0","id":1,"result":{"resultType":"complete","content":[],"ttlMs":0}}`:                       "",
		`{"jsonrpc":"2.0","id":1,"result":{"resultType":"partial","content":[]}}`:                                  "",
		`{"jsonrpc":"2.0","id":1,"result":{"resultType":"complete","tools":[],"ttlMs":0,"cacheScope":"private"}}`:  "tools/list",
		`{"jsonrpc":"2.0","id":1,"result":{"resultType":"complete","tools":[],"ttlMs":-1,"cacheScope":"private"}}`: "",
		`{"jsonrpc":"2.0","id":1,"result":{"resultType":"complete","tools":[],"ttlMs":0}}`:                         "",
		`{"jsonrpc":"2.0","id":1,"result":{"resultType":"input_required","requestState":"x"}}`:                     "tools/call resources/read prompts/get",
		`{"jsonrpc":"2.0","id":1,"result":{"resultType":"input_required"}}`:                                        "",
		`{"jsonrpc":"2.0","id":1,"error":{"code":-32021,"message":"x","data":{"requiredCapabilities":{}}}}`:        "any",
		`{"jsonrpc":"2.0","id":1,"error":{"code":-32021,"message":"x"}}`:                                           "",
		`{"jsonrpc":"2.0","id":1,"error":{"code":-32002,"message":"x"}}`:                                           "",
		`{"jsonrpc":"2.0","id":1,"error":{"code":-32602,"message":"x","data":{"uri":"x:1"}}}`:                      "any",
		`{"jsonrpc":"2.0","id":"x","method":"roots/list"}`:                                                         "",
		`{"jsonrpc":"2.0","method":"notifications/elicitation/complete","params":{"elicitationId":"x"}}`:           "",
		`{"jsonrpc":"2.0","method":"notifications/tools/list_changed"}`:                                            "any",
	} {
		for _, method := range []string{"tools/call", "tools/list", "resources/read", "prompts/get", "server/discover"} {
			want := methods == "any" || slices.Contains(strings.Fields(methods), method)
			if err := spec.Check(message, []string{method}); (err == nil) != want {
				t.Errorf("%s: %s: legal %v, want %v: %v", method, message, err == nil, want, err)
			}
		}
	}
}
