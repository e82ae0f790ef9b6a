package toolschema

import (
	"encoding/json"
	"slices"

	infer "github.com/google/jsonschema-go/jsonschema"

	"github.com/troupe-run/troupe/codec"
)

// Presets are the defaults of the arguments that a client may leave out. nil has none.
type Presets struct {
	members []preset
	each    *Presets // of the elements of a list, or the values of a map
}

// preset is a member of an object that has a default, or whose own members have some.
type preset struct {
	name   string
	value  json.RawMessage // nil for none
	within *Presets
}

// presetsOf collects the defaults in an inferred schema.
func presetsOf(s *infer.Schema) *Presets {
	p := new(Presets)
	for _, name := range s.PropertyOrder {
		of := s.Properties[name]
		if within := presetsOf(of); within != nil || of.Default != nil {
			p.members = append(p.members, preset{name, of.Default, within})
		}
	}
	switch {
	case s.Items != nil:
		p.each = presetsOf(s.Items)
	case s.AdditionalProperties != nil:
		p.each = presetsOf(s.AdditionalProperties)
	}
	if p.members == nil && p.each == nil {
		return nil
	}
	return p
}

// Fill returns args, which a schema has found to fit, with the defaults of what is not there or null.
func (p *Presets) Fill(args []byte) []byte {
	if p == nil {
		return args
	}
	return p.fillValue(make([]byte, 0, len(args)+len(args)/2), args)
}

// fillValue appends a value with its defaults to dst.
func (p *Presets) fillValue(dst, value []byte) []byte {
	value = value[skipBlank(value, 0):]
	switch {
	case p == nil || len(value) == 0:
		return append(dst, value...)
	case value[0] == '{':
		return p.fillObject(dst, value)
	case value[0] == '[':
		dst = append(dst, '[')
		for element := range codec.Elements(value) {
			dst = append(p.each.fillValue(dst, element), ',')
		}
		return closeContainer(dst, ']')
	}
	return append(dst, value...)
}

func (p *Presets) fillObject(dst, object []byte) []byte {
	dst = append(dst, '{')
	filled := make([]bool, len(p.members))
	for key, value := range codec.Members(object) {
		of := p.each
		if i := p.memberIndex(key); i >= 0 {
			if value[0] == 'n' && p.members[i].value != nil {
				continue
			}
			filled[i], of = true, p.members[i].within
		}
		dst = append(append(append(dst, '"'), key...), '"', ':')
		dst = append(of.fillValue(dst, value), ',')
	}
	for i := range p.members {
		m := &p.members[i]
		if filled[i] || m.value == nil {
			continue
		}
		dst = append(append(append(dst, quoteName(m.name)...), ':'), m.value...)
		dst = append(dst, ',')
	}
	return closeContainer(dst, '}')
}

// memberIndex returns the index of a member by its name as it came, or -1.
func (p *Presets) memberIndex(key []byte) int {
	name := string(key)
	if slices.Contains(key, '\\') {
		name, _ = codec.Str(slices.Concat([]byte{'"'}, key, []byte{'"'}))
	}
	return slices.IndexFunc(p.members, func(m preset) bool { return m.name == name })
}

// closeContainer ends a container, and takes away the comma behind its last value.
func closeContainer(dst []byte, bracket byte) []byte {
	if dst[len(dst)-1] == ',' {
		dst = dst[:len(dst)-1]
	}
	return append(dst, bracket)
}

// quoteName returns the name of a member as JSON.
func quoteName(name string) []byte {
	b, _ := json.Marshal(name) // a string always encodes
	return b
}
