package toolschema

import (
	"reflect"
	"slices"
	"strings"
	"unicode"
)

// structField is a field of a struct, or of a struct embedded in it, that is a member of
// its JSON object.
type structField struct {
	reflect.StructField // its Index leads to the field from the outer struct
	name                string
	tagged              bool // a json tag gives the name
	optional            bool // it may be left out
	omitted             bool // it is left out if it is nil
	quoted              bool // the value is written as a string
	pointer             bool // it lies in an embedded pointer
	unreachable         bool // that pointer is to an unexported type
}

// embedded is an embedded struct whose fields count as those of the outer struct.
type embedded struct {
	of          reflect.Type
	index       []int
	pointer     bool
	unreachable bool
}

// structFields returns the members of t's JSON object in the order of their declaration. It
// follows encoding/json: of the members with one name the least deeply embedded one counts;
// at equal depth the only one with a tag, or none.
func structFields(t reflect.Type) []structField {
	byName := map[string][]structField{} // the fields at the least depth that has the name
	seen := map[reflect.Type]bool{}
	for level := []embedded{{of: t}}; len(level) > 0; {
		found := map[string][]structField{}
		var next []embedded
		for _, e := range level {
			seen[e.of] = true
			for n := range e.of.NumField() {
				f, deeper := memberOf(e, n)
				switch {
				case deeper != nil:
					next = append(next, *deeper)
				case f != nil:
					found[f.name] = append(found[f.name], *f)
				}
			}
		}
		for name, fields := range found {
			if _, shadowed := byName[name]; !shadowed {
				byName[name] = fields
			}
		}
		level = slices.DeleteFunc(next, func(e embedded) bool { return seen[e.of] })
	}
	var out []structField
	for _, fields := range byName {
		if f, ok := dominantField(fields); ok {
			out = append(out, f)
		}
	}
	slices.SortFunc(out, func(a, b structField) int { return slices.Compare(a.Index, b.Index) })
	return out
}

// memberOf reads the n-th field of an embedded struct. It returns a member, a struct whose
// fields are members, or neither.
func memberOf(e embedded, n int) (*structField, *embedded) {
	f := e.of.Field(n)
	inner := f.Type
	if inner.Kind() == reflect.Pointer && inner.Name() == "" {
		inner = inner.Elem()
	}
	tag := f.Tag.Get("json")
	if tag == "-" || !f.IsExported() && !(f.Anonymous && inner.Kind() == reflect.Struct) {
		return nil, nil
	}
	name, options, _ := strings.Cut(tag, ",")
	if !memberName(name) {
		name = ""
	}
	pointer := f.Anonymous && f.Type.Kind() == reflect.Pointer
	f.Index = append(slices.Clone(e.index), n)
	unreachable := e.unreachable || pointer && !f.IsExported()
	if f.Anonymous && name == "" && inner.Kind() == reflect.Struct {
		return nil, &embedded{of: inner, index: f.Index, pointer: e.pointer || pointer, unreachable: unreachable}
	}
	member := &structField{StructField: f, name: name, tagged: name != "", pointer: e.pointer, unreachable: unreachable, optional: e.pointer}
	if !member.tagged {
		member.name = f.Name
	}
	for option := range strings.SplitSeq(options, ",") {
		switch option {
		case "omitempty", "omitzero":
			member.optional, member.omitted = true, true
		case "string":
			member.quoted = isQuotable(inner.Kind())
		}
	}
	return member, nil
}

// dominantField returns the field that counts among those of one name and depth.
func dominantField(fields []structField) (structField, bool) {
	if tagged := slices.DeleteFunc(slices.Clone(fields), func(f structField) bool { return !f.tagged }); len(tagged) > 0 {
		fields = tagged
	}
	return fields[0], len(fields) == 1
}

// isQuotable reports whether a json tag's option "string" applies to the kind.
func isQuotable(k reflect.Kind) bool {
	return k == reflect.Bool || k == reflect.String || reflect.Int <= k && k <= reflect.Float64
}

// memberName reports whether encoding/json accepts the name of a json tag.
func memberName(name string) bool {
	for _, c := range name {
		if !unicode.IsLetter(c) && !unicode.IsDigit(c) && !strings.ContainsRune("!#$%&()*+-./:;<=>?@[]^_{|}~ ", c) {
			return false
		}
	}
	return name != ""
}
