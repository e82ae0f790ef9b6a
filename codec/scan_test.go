package codec

import "testing"

func TestScanKinds(t *testing.T) {
	t.Parallel()
	for _, tt := range []struct {
		in   string
		kind Kind
	}{
		{`{"jsonrpc":"2.0","id":1,"method":"ping"}`, Request},
		{`{"jsonrpc":"2.0","method":"ping"}`, Notification},
		{`{"jsonrpc":"2.0","id":1,"result":{}}`, Result},
		{`{"jsonrpc":"2.0","error":{"code":-1,"message":""}}`, ErrorResponse},
		{`[1]`, Batch},
	} {
		var m Message
		if err := Scan([]byte(tt.in), &m, Limits{}); err != nil || m.Kind != tt.kind {
			t.Errorf("Scan(%s) = %v, kind %v, want %v", tt.in, err, m.Kind, tt.kind)
		}
	}
}
