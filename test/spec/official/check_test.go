package official

import "testing"

// TestConformanceIsChecked checks that the check of the other tests refuses messages:
// one that accepts everything would be no check.
func TestConformanceIsChecked(t *testing.T) {
	t.Parallel()
	spec, err := Of(newest)
	if err != nil {
		t.Fatal(err)
	}
	if spec == nil {
		t.Skip("the official schema is not here (set TROUPE_SPEC_DIR)")
	}
	call := []string{"ping", "tools/call"}
	for message, ok := range map[string]bool{
		`{"jsonrpc":"2.0","id":1,"result":{"content":[]}}`:                                                   true,
		`{"jsonrpc":"2.0","id":1,"result":{"content":null}}`:                                                 true, // as the result of a ping
		`{"jsonrpc":"2.0","id":1,"result":null}`:                                                             false,
		`{"jsonrpc":"2.0","id":null,"result":{}}`:                                                            false,
		`{"id":1,"result":{}}`:                                                                               false,
		`{"jsonrpc":"2.0","error":{"code":-32700,"message":"x"}}`:                                            true,
		`{"jsonrpc":"2.0","id":1,"error":{"code":"x","message":"x"}}`:                                        false,
		`{"jsonrpc":"2.0","id":1,"error":{"code":-32042,"message":"x","data":{}}}`:                           false,
		`{"jsonrpc":"2.0","method":"notifications/progress","params":{"progressToken":1.5,"progress":1}}`:    false,
		`{"jsonrpc":"2.0","method":"notifications/progress","params":{"progressToken":"","progress":0.5}}`:   true,
		`{"jsonrpc":"2.0","method":"notifications/nothing"}`:                                                 false,
		`{"jsonrpc":"2.0","id":"x","method":"roots/list"}`:                                                   true,
		`{"jsonrpc":"2.0","id":"x","method":"elicitation/create","params":{"mode":"url","message":"x"}}`:     false,
		`{"jsonrpc":"2.0","method":"notifications/message","params":{"level":"loud","data":1}}`:              false,
		`{"jsonrpc":"2.0","method":"notifications/resources/updated","params":{"uri":"no uri"}}`:             false,
		`[{"jsonrpc":"2.0","method":"notifications/progress","params":{"progressToken":"","progress":0.5}}]`: false,
	} {
		if err := spec.Check(message, call); (err == nil) != ok {
			t.Errorf("%s: legal %v, want %v: %v", message, err == nil, ok, err)
		}
	}
	if err := spec.Check(`{"jsonrpc":"2.0","id":1,"result":{"content":null}}`, call[1:]); err == nil {
		t.Error("a tool's result without content is accepted")
	}
	for _, row := range []struct {
		revision, message string
		ok                bool
	}{
		{"2025-06-18", `{"jsonrpc":"2.0","id":1,"result":{"content":[],"structuredContent":{}}}`, true},
		{"2025-03-26", `{"jsonrpc":"2.0","id":1,"result":{"content":[],"structuredContent":{}}}`, false},
		{"2024-11-05", `{"jsonrpc":"2.0","id":1,"result":{"content":[],"_meta":{}}}`, true},
		{"2024-11-05", `{"jsonrpc":"2.0","error":{"code":-32600,"message":"x"}}`, true},
		{"2024-11-05", `{"jsonrpc":"2.0","id":1,"error":{"code":"x","message":"x"}}`, false},
		{"2025-06-18", `{"jsonrpc":"2.0","id":1,"error":{"code":-32042,"message":"x","data":{"elicitations":[]}}}`, false},
		{"2025-03-26", `{"jsonrpc":"2.0","method":"notifications/progress","params":{"progressToken":1,"progress":1,"message":"x"}}`, true},
		{"2024-11-05", `{"jsonrpc":"2.0","method":"notifications/progress","params":{"progressToken":1,"progress":1,"message":"x"}}`, false},
		{"2025-03-26", `{"jsonrpc":"2.0","id":"x","method":"elicitation/create","params":{"message":"x","requestedSchema":{"type":"object","properties":{}}}}`, false},
		{"2025-06-18", `{"jsonrpc":"2.0","id":"x","method":"elicitation/create","params":{"message":"x","requestedSchema":{"type":"object","properties":{}}}}`, true},
	} {
		spec, err := Of(row.revision)
		if err != nil {
			t.Fatal(err)
		}
		if err := spec.Check(row.message, call[1:]); (err == nil) != row.ok {
			t.Errorf("%s: %s: legal %v, want %v: %v", row.revision, row.message, err == nil, row.ok, err)
		}
	}
}
