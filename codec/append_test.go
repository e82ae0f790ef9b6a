package codec

import "testing"

func TestAppendEnvelopes(t *testing.T) {
	t.Parallel()
	for _, tt := range []struct {
		name string
		got  []byte
		want string
		kind Kind
	}{
		{"result", AppendResult(nil, []byte(`"a"`), []byte(`{"x":1}`)), `{"jsonrpc":"2.0","id":"a","result":{"x":1}}`, Result},
		{"result of nothing", AppendResult(nil, []byte(`1`), nil), `{"jsonrpc":"2.0","id":1,"result":{}}`, Result},
		{"error", AppendError(nil, []byte(`-7`), -32601, "no \"such\"\nmethod \xff", []byte(`[1]`)), `{"jsonrpc":"2.0","id":-7,"error":{"code":-32601,"message":"no \"such\"\nmethod �","data":[1]}}`, ErrorResponse},
		{"error without id and data", AppendError(nil, nil, -32700, "", nil), `{"jsonrpc":"2.0","error":{"code":-32700,"message":""}}`, ErrorResponse},
		{"notification", AppendNotification(nil, "notifications/progress", []byte(`{}`)), `{"jsonrpc":"2.0","method":"notifications/progress","params":{}}`, Notification},
		{"notification without params", AppendNotification(nil, "n", nil), `{"jsonrpc":"2.0","method":"n"}`, Notification},
		{"request", AppendRequest(nil, []byte(`12345678901234567890`), "工具\"", []byte(`{"a":1}`)), `{"jsonrpc":"2.0","id":12345678901234567890,"method":"工具\"","params":{"a":1}}`, Request},
		{"request without params", AppendRequest(nil, []byte(`1`), "ping", nil), `{"jsonrpc":"2.0","id":1,"method":"ping"}`, Request},
	} {
		t.Run(tt.name, func(t *testing.T) {
			t.Parallel()
			if string(tt.got) != tt.want {
				t.Errorf("got %s, want %s", tt.got, tt.want)
			}
			var m Message
			if err := Scan(tt.got, &m, Limits{}); err != nil || m.Kind != tt.kind {
				t.Errorf("Scan(%s) = %v, kind %v, want %v", tt.got, err, m.Kind, tt.kind)
			}
		})
	}
	if got := string(AppendResult([]byte("data: "), []byte("1"), []byte("{}"))); got != `data: {"jsonrpc":"2.0","id":1,"result":{}}` {
		t.Errorf("AppendResult lost its prefix: %s", got)
	}
}

func TestAppendCompact(t *testing.T) {
	t.Parallel()
	for _, tt := range []struct{ in, want string }{
		{`{}`, `{}`},
		{" \n{ \r\n}\t", `{}`},
		{"{\n  \"a b\" : [ 1 ,\t2 , \"x  y\\n \\\" , \\\\\" ],\n \"c\":null }\n", `{"a b":[1,2,"x  y\n \" , \\"],"c":null}`},
		{`"  "`, `"  "`},
		{` 1 `, `1`},
		{"[ true , false ]", `[true,false]`},
	} {
		if got := string(AppendCompact([]byte("x"), []byte(tt.in))); got != "x"+tt.want {
			t.Errorf("AppendCompact(%q) = %s, want x%s", tt.in, got, tt.want)
		}
	}
}

func TestBuffer(t *testing.T) {
	t.Parallel()
	b := GetBuffer()
	if len(b.B) != 0 {
		t.Fatalf("a new buffer has length %d", len(b.B))
	}
	b.B = append(b.B, "left over"...)
	b.Free()
	for range 100 {
		b := GetBuffer()
		if len(b.B) != 0 {
			t.Fatalf("a pooled buffer has length %d", len(b.B))
		}
		defer b.Free()
	}
	large := &Buffer{B: make([]byte, 0, maxPooled+1)}
	large.Free()
	for range 100 {
		if b := GetBuffer(); cap(b.B) > maxPooled {
			t.Fatalf("a buffer of %d bytes was pooled", cap(b.B))
		}
	}
	(*Buffer)(nil).Free()
}
