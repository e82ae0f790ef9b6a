package limits

import (
	"fmt"
	"reflect"
	"strings"
)

// tag names, on a field of a struct, the option whose value the field has, as [Row.Option] does:
//
//	MaxDepth int `option:"Limits.MaxDepth"`
//
// A struct without that tag may have such fields.
const tag = "option"

// Fill sets the fields of the struct that to points to from the options that their tags name.
// Options points to a troupe.Options. It panics if there is no such option.
func Fill(to, options any) {
	from := reflect.ValueOf(options).Elem()
	eachOption(reflect.ValueOf(to).Elem(), func(r *Row, field reflect.Value) {
		field.Set(optionOf(from, r.Option).Convert(field.Type()))
	})
}

// FillDefaults sets the fields of the struct that to points to as [Limit.Or] does, by the options that
// their tags name.
func FillDefaults(to any) {
	eachOption(reflect.ValueOf(to).Elem(), func(r *Row, field reflect.Value) {
		if set := floatOf(field); set == 0 || set < 0 && !r.None {
			field.Set(reflect.ValueOf(r.Default).Convert(field.Type()))
		}
	})
}

// eachOption calls visit with each field of v that has a tag, and the row of its option.
func eachOption(v reflect.Value, visit func(r *Row, field reflect.Value)) {
	for i := range v.NumField() {
		f := v.Type().Field(i)
		switch option, tagged := f.Tag.Lookup(tag); {
		case tagged:
			r := rowOfOption(option)
			if r == nil {
				panic(fmt.Sprintf("limits: %s.%s: there is no option %s", v.Type(), f.Name, option))
			}
			visit(r, v.Field(i))
		case f.Type.Kind() == reflect.Struct:
			eachOption(v.Field(i), visit)
		}
	}
}

// rowOfOption returns the row of an option, nil if it has none.
func rowOfOption(option string) *Row {
	for _, r := range table {
		if r.Option == option && !r.again {
			return r
		}
	}
	return nil
}

// optionOf returns the option of a name, such as Limits.MaxURI in a troupe.Options.
func optionOf(options reflect.Value, name string) reflect.Value {
	for field := range strings.SplitSeq(name, ".") {
		options = options.FieldByName(field)
	}
	return options
}

func floatOf(v reflect.Value) float64 { return v.Convert(reflect.TypeFor[float64]()).Float() }
