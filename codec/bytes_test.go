package codec

import (
	"encoding/json"
	"net"
	"testing"
)

type (
	byteKind  byte
	textByte  byte
	byteInner struct{ In []byte }
	byteOuter struct {
		byteInner
		*BytePointer
		Own     []byte
		Kind    []byteKind
		Texts   []textByte
		Ptr     *[]byte
		List    [][]byte
		Array   [2][]byte
		Map     map[string][]byte
		Structs []byteInner
		Deep    *byteInner
		IP      net.IP
		Raw     json.RawMessage
		Any     any
		Empty   []byte `json:",omitempty"`
		Zero    []byte `json:",omitzero"`
		Not     []byte `json:"-"`
		private []byte
	}
	BytePointer struct{ P []byte }
	byteText    struct{ B []byte }
	byteList    struct {
		B    []byte
		Next *byteList
	}
)

func (textByte) MarshalText() ([]byte, error) { return []byte("t"), nil }
func (byteText) MarshalText() ([]byte, error) { return []byte("t"), nil }

// TestNilBytes checks that JSON has a string for a nil []byte wherever it has one for a full one, and that marshalling
// does not change the value.
func TestNilBytes(t *testing.T) {
	t.Parallel()
	v := byteOuter{BytePointer: &BytePointer{}, Ptr: new([]byte), List: [][]byte{nil, {1}}, Map: map[string][]byte{"a": nil, "b": {1}},
		Structs: []byteInner{{}, {In: []byte{1}}}, Deep: &byteInner{}, Any: []byte(nil)}
	want := nilBytesInAny(`{"In":"","P":"","Own":"","Kind":"","Texts":[],"Ptr":"","List":["","AQ=="],"Array":["",""],"Map":{"a":"","b":"AQ=="},` +
		`"Structs":[{"In":""},{"In":"AQ=="}],"Deep":{"In":""},"IP":"","Raw":null,"Any":%s}`)
	for name, in := range map[string]any{"value": v, "pointer": &v, "in an interface of its own": []any{1, &v}[1]} {
		if got, err := Marshal(in); err != nil || string(got) != want {
			t.Errorf("%s: got %s, %v, want %s", name, got, err, want)
		}
	}
	if v.Own != nil || *v.Ptr != nil || v.List[0] != nil || v.Map["a"] != nil || v.Structs[0].In != nil || v.Deep.In != nil || v.P != nil || v.private != nil {
		t.Errorf("marshalling changed the value: %+v", v)
	}
	full := byteInner{In: []byte{}}
	if got, err := Marshal(full); err != nil || string(got) != `{"In":""}` {
		t.Errorf("got %s, %v", got, err)
	}
	if lists := (&byteList{Next: &byteList{}}); true {
		if got, err := Marshal(lists); err != nil || string(got) != `{"B":"","Next":{"B":"","Next":null}}` {
			t.Errorf("got %s, %v", got, err)
		}
	}
	cycle := &byteList{B: []byte{1}}
	cycle.Next = cycle
	if got, err := Marshal(cycle); err == nil {
		t.Errorf("a value that holds itself: got %d bytes", len(got))
	}
}
