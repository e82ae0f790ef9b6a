package codec

import (
	"encoding/json"
	"math/big"
	"reflect"
	"sync"
)

// plan says what a type can hold, and so what to take care of when it is encoded or decoded.
type plan uint8

const (
	// holdsAny: an interface is somewhere inside, so a decoded json.Number may refer to the input.
	holdsAny plan = 1 << iota

	// holdsNumber: a json.Number is somewhere inside. On arm64 sonic's decoder lets some of them refer to the input,
	// even those that come from a string.
	holdsNumber

	// holdsRaw: a json.Marshaler or an interface is somewhere inside, so the encoding may hold foreign JSON.
	holdsRaw

	// holdsBytes: somewhere inside, but not in an interface, is a []byte that is written in base64 even if it is nil.
	holdsBytes

	// holdsBig: a big.Int is somewhere inside, which takes an integer only without fraction and exponent.
	holdsBig
)

var (
	plans       sync.Map // reflect.Type to plan
	marshaler   = reflect.TypeFor[json.Marshaler]()
	textual     = reflect.TypeFor[interface{ MarshalText() ([]byte, error) }]()
	unmarshaler = reflect.TypeFor[json.Unmarshaler]()
	number      = reflect.TypeFor[json.Number]()
	bigInt      = reflect.TypeFor[big.Int]()
)

// planOf returns the plan of t, which may be nil.
func planOf(t reflect.Type) plan {
	if t == nil {
		return 0
	}
	if p, ok := plans.Load(t); ok {
		return p.(plan)
	}
	p := lookInside(t, make(map[reflect.Type]bool))
	plans.Store(t, p)
	return p
}

// Known lists the types that Marshal and Unmarshal have had so far, and those that Pretouch has compiled, each with its
// pointer. A type that a call adds to it was compiled while that call ran.
func Known() (types []reflect.Type) {
	for t := range plans.Range {
		types = append(types, t.(reflect.Type))
	}
	return types
}

// lookInside walks the types inside t, each once. It skips types that decode themselves: encoding/json requires them to copy
// the bytes that they keep.
func lookInside(t reflect.Type, seen map[reflect.Type]bool) plan {
	if seen[t] {
		return 0
	}
	seen[t] = true
	var p, mask plan
	if t.Implements(marshaler) || reflect.PointerTo(t).Implements(marshaler) {
		p |= holdsRaw
	}
	if reflect.PointerTo(t).Implements(unmarshaler) {
		mask |= holdsAny | holdsNumber
	}
	if writesItself(t) {
		mask |= holdsBytes
	}
	if t == number {
		p |= holdsNumber
	}
	if t == bigInt {
		p |= holdsBig
	}
	if isBytes(t) {
		p |= holdsBytes
	}
	switch t.Kind() {
	case reflect.Interface:
		p |= holdsAny | holdsRaw
	case reflect.Map:
		p |= lookInside(t.Key(), seen) &^ holdsRaw
		p |= lookInside(t.Elem(), seen)
	case reflect.Pointer, reflect.Slice, reflect.Array:
		p |= lookInside(t.Elem(), seen)
	case reflect.Struct:
		for i := range t.NumField() {
			p |= lookInside(t.Field(i).Type, seen)
		}
	}
	return p &^ mask
}
