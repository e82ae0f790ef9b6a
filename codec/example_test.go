package codec_test

import (
	"fmt"

	"github.com/troupe-run/troupe/codec"
)

// A request is scanned in place, and its answer is spliced together behind the bytes of its id.
func ExampleScan() {
	body := []byte(`{"jsonrpc":"2.0","id":7,"method":"tools/call","params":{"name":"greet","arguments":{"who":"world"}}}`)
	var m codec.Message
	if err := codec.Scan(body, &m, codec.Limits{}); err != nil {
		fmt.Println(string(codec.AppendError(nil, err.ID, err.Code, err.Reason, nil)))
		return
	}
	who, _ := codec.Str(codec.Field(m.Arguments, "who"))
	fmt.Printf("%v %s for %s\n", m.Kind, m.Method, who)
	fmt.Println(string(codec.AppendResult(nil, m.ID, []byte(`{"content":[]}`))))
	// Output:
	// request tools/call for world
	// {"jsonrpc":"2.0","id":7,"result":{"content":[]}}
}
