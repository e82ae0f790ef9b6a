package troupe_test

import (
	"encoding/json"
	"errors"
	"fmt"
	"slices"
	"strings"
	"testing"
)

// modern reports whether the schema is of the era without sessions.
func (s officialSchema) modern() bool { return s["DiscoverResult"] != nil }

// modernErrors are the definitions of errors that have one, and the codes that no
// server may send any more ("").
var modernErrors = map[json.Number]string{
	"-32020": "HeaderMismatchError", "-32021": "MissingRequiredClientCapabilityError", "-32022": "UnsupportedProtocolVersionError",
	"-32002": "", "-32042": "",
}

// checkModern is check for a schema without sessions: requests of a server are not
// legal there, and a result says what it is.
func (s officialSchema) checkModern(m map[string]any, has func(string) bool, methods []string) error {
	switch {
	case has("method") && has("id"):
		return errors.New("the revision has no requests of servers")
	case has("method"):
		return s["ServerNotification"].Validate(m)
	case has("error"):
		def := "JSONRPCErrorResponse"
		if e, ok := m["error"].(map[string]any); ok {
			if code, ok := e["code"].(json.Number); ok {
				if name, ok := modernErrors[code]; ok {
					def = name
				}
			}
		}
		if def == "" {
			return errors.New("the revision has taken this code back")
		}
		return s[def].Validate(m)
	}
	if err := s["JSONRPCResultResponse"].Validate(m); err != nil {
		return err
	}
	result := m["result"].(map[string]any)
	if result["resultType"] == "input_required" {
		if !slices.ContainsFunc(methods, func(m string) bool {
			return m == "tools/call" || m == "prompts/get" || m == "resources/read"
		}) {
			return fmt.Errorf("no request of %v may be answered with questions", methods)
		}
		if result["inputRequests"] == nil && result["requestState"] == nil {
			return errors.New("neither questions nor a state")
		}
		return s["InputRequiredResult"].Validate(result)
	}
	if result["resultType"] != "complete" {
		return fmt.Errorf("results of type %v are unknown", result["resultType"])
	}
	err := errors.New("an answer to nothing that was asked")
	for _, method := range methods {
		if def, ok := s[resultTypes[method]]; ok {
			if err = def.Validate(result); err == nil {
				return nil
			}
		}
	}
	return err
}

// legal holds a message of a server against the official schema of 2026-07-28, where
// that is there.
func legal(t *testing.T, message, method string) {
	t.Helper()
	spec, err := schemas[r28]()
	if err != nil {
		t.Fatalf("official schema: %v", err)
	}
	if spec == nil {
		return
	}
	if err := spec.check(message, []string{method}); err != nil {
		t.Errorf("not legal by the official schema: %.2000s\n%v", message, err)
	}
}

// TestModernConformanceIsChecked guards legal against a schema that accepts all.
func TestModernConformanceIsChecked(t *testing.T) {
	t.Parallel()
	spec, err := schemas[r28]()
	if err != nil {
		t.Fatal(err)
	}
	if spec == nil {
		t.Skip("the official schema is not here (set TROUPE_SPEC_DIR)")
	}
	for message, methods := range map[string]string{ // for which it is legal
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
			if err := spec.check(message, []string{method}); (err == nil) != want {
				t.Errorf("%s: %s: legal %v, want %v: %v", method, message, err == nil, want, err)
			}
		}
	}
}
