package mcp

import (
	"encoding/json"
	"fmt"
	"reflect"
	"strings"
	"sync"
)

// decodeStruct fills the struct that v points to from an object. It matches member names
// exactly: encoding/json would also accept "Text" for "text", and a strict peer would
// then see another message in the same bytes. It passes members that the struct lacks to
// other, if that is not nil. The bytes must be valid JSON.
func decodeStruct(data []byte, v any, other func(key string, value []byte)) error {
	return decodeStructValue(data, reflect.ValueOf(v).Elem(), other)
}

func decodeStructValue(data []byte, v reflect.Value, other func(key string, value []byte)) error {
	fields := fieldsOf(v.Type())
	it := newMembers(data)
	for it.next() {
		key := it.key()
		index, known := fields[key]
		if !known {
			if other != nil {
				other(key, it.value)
			}
			continue
		}
		if err := decodeValue(it.value, v.FieldByIndex(index)); err != nil {
			return fmt.Errorf("mcp: decode member %q: %w", key, err)
		}
	}
	if !it.ok {
		return fmt.Errorf("mcp: decode %s: %w: not an object", v.Type().Name(), ErrMalformed)
	}
	return nil
}

func decodeValue(data []byte, v reflect.Value) error {
	if u, ok := v.Addr().Interface().(json.Unmarshaler); ok {
		return u.UnmarshalJSON(data)
	}
	null := isNull(data)
	switch {
	case v.Kind() == reflect.Pointer:
		if null {
			v.SetZero()
			return nil
		}
		p := reflect.New(v.Type().Elem())
		if err := decodeValue(data, p.Elem()); err != nil {
			return err
		}
		v.Set(p)
		return nil
	case null:
		return nil
	case v.Kind() == reflect.String:
		if s, ok := plainString(data); ok {
			v.SetString(string(s))
			return nil
		}
	case v.Kind() == reflect.Struct:
		return decodeStructValue(data, v, nil)
	case v.Kind() == reflect.Slice && v.Type().Elem().Kind() == reflect.Struct:
		raw, ok := elements(data)
		if !ok {
			return fmt.Errorf("%w: not an array", ErrMalformed)
		}
		s := reflect.MakeSlice(v.Type(), len(raw), len(raw))
		for i, e := range raw {
			if err := decodeValue(e, s.Index(i)); err != nil {
				return err
			}
		}
		v.Set(s)
		return nil
	}
	if err := json.Unmarshal(data, v.Addr().Interface()); err != nil {
		return fmt.Errorf("%w: %w", ErrMalformed, err)
	}
	return nil
}

// fieldIndex maps the member names of a struct to the paths of its fields.
type fieldIndex map[string][]int

var fieldCache sync.Map // reflect.Type → fieldIndex; one entry per struct of this package

func fieldsOf(t reflect.Type) fieldIndex {
	if cached, ok := fieldCache.Load(t); ok {
		return cached.(fieldIndex)
	}
	fields := fieldIndex{}
	for _, f := range reflect.VisibleFields(t) {
		name, _, _ := strings.Cut(f.Tag.Get("json"), ",")
		if name == "" || name == "-" {
			continue
		}
		if old, ok := fields[name]; !ok || len(f.Index) < len(old) {
			fields[name] = f.Index
		}
	}
	fieldCache.Store(t, fields)
	return fields
}
