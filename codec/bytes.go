package codec

import (
	"reflect"
	"strings"
)

// isBytes reports whether slices of type t are written in base64.
func isBytes(t reflect.Type) bool {
	return t.Kind() == reflect.Slice && t.Elem().Kind() == reflect.Uint8 && !writesItself(t) && !writesItself(t.Elem())
}

// writesItself reports whether values of type t, or pointers to them, encode themselves.
func writesItself(t reflect.Type) bool {
	p := reflect.PointerTo(t)
	return p.Implements(marshaler) || p.Implements(textual)
}

// withBytes returns v with an empty []byte in place of each nil one that v holds outside of interfaces: sonic would
// write a nil one like other nil slices. It copies only the way to each of them, and does not change v.
func withBytes(v any) any {
	old := reflect.ValueOf(v)
	if !lacksBytes(old, 0) {
		return v
	}
	own := reflect.New(old.Type()).Elem()
	own.Set(old)
	fillBytes(own)
	return own.Interface()
}

// lacksBytes reports whether v holds a nil []byte that would be written. It skips values nested deeper than any JSON
// that Valid accepts, such as values that hold themselves; the encoder refuses those.
func lacksBytes(v reflect.Value, depth int) bool {
	if depth > maxDepth || planOf(v.Type())&holdsBytes == 0 {
		return false
	}
	switch v.Kind() {
	case reflect.Pointer:
		return !v.IsNil() && lacksBytes(v.Elem(), depth+1)
	case reflect.Slice, reflect.Array:
		if isBytes(v.Type()) {
			return v.IsNil()
		}
		for i := range v.Len() {
			if lacksBytes(v.Index(i), depth+1) {
				return true
			}
		}
	case reflect.Map:
		for m := v.MapRange(); m.Next(); {
			if lacksBytes(m.Value(), depth+1) {
				return true
			}
		}
	case reflect.Struct:
		for i := range v.NumField() {
			if writtenWhenNil(v.Type().Field(i)) && lacksBytes(v.Field(i), depth+1) {
				return true
			}
		}
	}
	return false
}

// writtenWhenNil reports whether a nil slice in a field, or in a struct embedded there, is written.
func writtenWhenNil(f reflect.StructField) bool {
	if !f.IsExported() && !f.Anonymous {
		return false
	}
	name, options, _ := strings.Cut(f.Tag.Get("json"), ",")
	return name != "-" && !strings.Contains(options, "omit")
}

// fillBytes changes v, which must be settable and for which lacksBytes must be true.
func fillBytes(v reflect.Value) {
	if !lacksBytes(v, 0) {
		return
	}
	switch v.Kind() {
	case reflect.Pointer:
		own := reflect.New(v.Type().Elem())
		own.Elem().Set(v.Elem())
		fillBytes(own.Elem())
		v.Set(own.Convert(v.Type()))
	case reflect.Slice:
		if isBytes(v.Type()) {
			v.Set(reflect.MakeSlice(v.Type(), 0, 0))
			return
		}
		own := reflect.MakeSlice(v.Type(), v.Len(), v.Len())
		reflect.Copy(own, v)
		v.Set(own)
		fallthrough
	case reflect.Array:
		for i := range v.Len() {
			fillBytes(v.Index(i))
		}
	case reflect.Map:
		own := reflect.MakeMapWithSize(v.Type(), v.Len())
		for m := v.MapRange(); m.Next(); {
			e := reflect.New(v.Type().Elem()).Elem()
			e.Set(m.Value())
			fillBytes(e)
			own.SetMapIndex(m.Key(), e)
		}
		v.Set(own)
	case reflect.Struct:
		for i := range v.NumField() {
			// An embedded struct of an unexported type cannot be set, but its fields can.
			if f := v.Field(i); writtenWhenNil(v.Type().Field(i)) && (f.CanSet() || f.Kind() == reflect.Struct) {
				fillBytes(f)
			}
		}
	}
}
