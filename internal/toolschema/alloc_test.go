//go:build !race

package toolschema

import (
	"encoding/json"
	"testing"
)

// TestOpenPlanAllocates checks that members that the schema does not name cost no memory either. Under the race detector
// pools lose what they hold.
func TestOpenPlanAllocates(t *testing.T) {
	s, _, err := Arguments(json.RawMessage(`{"type":"object","additionalProperties":{"type":["integer","object"]}}`))
	if err != nil {
		t.Fatal(err)
	}
	raw := []byte(`{"a":1,"b":2,"c":3,"d":{"a":1,"b":2},"e":5,"f":6,"g":7,"h":8,"i":9,"j":10}`)
	if n := testing.AllocsPerRun(100, func() {
		if err := s.Validate(raw); err != nil {
			t.Error(err)
		}
	}); n > 0 {
		t.Errorf("%v allocations", n)
	}
}
