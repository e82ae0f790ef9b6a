package codec

import (
	"bytes"
	"encoding/json"
	"math/rand/v2"
	"reflect"
	"testing"

	jsonv2 "github.com/go-json-experiment/json"
)

// typed has the kinds of members that tool arguments have, under keys that the random input uses.
type typed struct {
	ID        *int64                     `json:"id"`
	Method    string                     `json:"method"`
	Params    map[string]json.RawMessage `json:"params"`
	Result    *typed                     `json:"result"`
	Error     []string                   `json:"error"`
	Name      *string                    `json:"name"`
	Code      float64                    `json:"code"`
	Message   bool                       `json:"message"`
	Arguments json.RawMessage            `json:"arguments"`
	Cursor    uint8                      `json:"cursor"`
	Nested    struct {
		A []map[string]int `json:"a"`
	} `json:"uri"`
}

// TestUnmarshalTyped compares structs decoded from random objects with the results of another implementation. It
// leaves out duplicate keys, for which the two merge values differently.
func TestUnmarshalTyped(t *testing.T) {
	t.Parallel()
	rounds := 40000
	if testing.Short() || raceEnabled {
		rounds = 4000
	}
	fits := 0
	for i := range rounds {
		r := randomJSON{Rand: rand.New(rand.NewPCG(7, uint64(i))), spaced: i%2 == 0}
		r.object(3, 1+r.IntN(3))
		if !jsontextUnique(r.out) {
			continue
		}
		var got, want typed
		in := bytes.Clone(r.out)
		err := Unmarshal(in, &got)
		for i := range in {
			in[i] = '?'
		}
		wantErr := jsonv2.Unmarshal(r.out, &want)
		if plain, ok := plainIntegers(r.out, false); ok && wantErr != nil { // that implementation knows integers only in their plain form
			want = typed{}
			wantErr = jsonv2.Unmarshal(plain, &want)
		}
		if (err == nil) != (wantErr == nil) {
			t.Fatalf("Unmarshal(%s) = %v, want %v", r.out, err, wantErr)
		}
		if err != nil {
			continue
		}
		fits++
		if !reflect.DeepEqual(got, want) {
			t.Fatalf("Unmarshal(%s) = %+v, want %+v", r.out, got, want)
		}
		out, err := Marshal(&got)
		var again typed
		if err == nil {
			err = Unmarshal(out, &again)
		}
		if err != nil || !oracleValid(out) || !bytes.Equal(AppendCompact(nil, out), out) {
			t.Fatalf("Marshal of %s = %s, %v", r.out, out, err)
		}
	}
	if fits < rounds/20 {
		t.Errorf("only %d of %d inputs fitted", fits, rounds)
	}
}
