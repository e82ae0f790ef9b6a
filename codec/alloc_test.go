package codec

import (
	"strings"
	"testing"
)

// within fails the test if run allocates more than budget times on average.
func within(t *testing.T, name string, budget float64, run func()) {
	t.Helper()
	if got := testing.AllocsPerRun(200, run); got > budget {
		t.Errorf("%s allocates %v times, want at most %v", name, got, budget)
	}
}

func TestAllocations(t *testing.T) {
	if raceEnabled || portable {
		t.Skip("the race detector and sonic's portable paths allocate more")
	}
	var m Message
	for name, in := range map[string]string{
		"text":         string(textBody(10 << 10)),
		"object":       string(objectBody(10 << 10)),
		"chinese":      string(chineseBody(10 << 10)),
		"batch":        `[{"jsonrpc":"2.0","id":1,"method":"m"},{"a":1}]`,
		"escaped keys": `{"jsonrpc":"2\u002e0","\u0069d":1,"m\u0065thod":"m","params":{"n\u0061me":"\u0061"}}`,
		"error":        `{"jsonrpc":"2.0","id":1,"error":{"code":1,"message":"\u0061"}}`,
	} {
		data := []byte(in)
		within(t, "Scan of "+name, 0, func() {
			if err := Scan(data, &m, Limits{}); err != nil {
				t.Fatal(err)
			}
		})
	}

	body := objectBody(2 << 10)
	within(t, "Valid", 0, func() { Valid(body) })
	within(t, "Field", 0, func() { Field(Field(body, "params"), "arguments") })
	n := 0
	within(t, "Members", 0, func() {
		for key, value := range Members(body) {
			n += len(key) + len(value)
		}
	})
	batch := []byte(`[1,{},"x"]`)
	within(t, "Elements", 0, func() {
		for raw := range Elements(batch) {
			n += len(raw)
		}
	})
	escapedString := []byte(`"\u0061 b"`)
	within(t, "Str", 1, func() { Str(escapedString) })
	within(t, "SameString", 0, func() { SameString(escapedString, "a b") })
	within(t, "DecodeHeader of a value that is not encoded", 0, func() { DecodeHeader(" file:///projects/my app/config.json ") })

	dst := make([]byte, 0, 8<<10)
	id, result := []byte("1"), []byte(`{"content":[]}`)
	within(t, "AppendResult", 0, func() { dst = AppendResult(dst[:0], id, result) })
	within(t, "AppendError", 0, func() { dst = AppendError(dst[:0], id, -32603, "internal error", result) })
	within(t, "AppendRequest", 0, func() { dst = AppendRequest(dst[:0], id, "ping", result) })
	within(t, "AppendNotification", 0, func() { dst = AppendNotification(dst[:0], "n", result) })
	within(t, "AppendCompact", 0, func() { dst = AppendCompact(dst[:0], body) })
	long := strings.Repeat("a\n", 100)
	within(t, "AppendString", 0, func() { dst = AppendString(dst[:0], long) })
	within(t, "GetBuffer", 0, func() { GetBuffer().Free() })

	type out struct {
		Text string `json:"text"`
	}
	v := &out{Text: "hello"}
	within(t, "AppendMarshal", 1, func() {
		var err error
		if dst, err = AppendMarshal(dst[:0], v); err != nil {
			t.Fatal(err)
		}
	})
	in := []byte(`{"text":"hello"}`)
	within(t, "Unmarshal", 2, func() {
		var got out
		if err := Unmarshal(in, &got); err != nil {
			t.Fatal(err)
		}
	})
	within(t, "Unmarshal into a map", 5, func() {
		var got map[string]any
		if err := Unmarshal(in, &got); err != nil {
			t.Fatal(err)
		}
	})
}
