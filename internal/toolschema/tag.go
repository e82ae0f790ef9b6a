package toolschema

import (
	"encoding/json"
	"errors"
	"fmt"
	"math"
	"reflect"
	"regexp"
	"slices"
	"strconv"
	"strings"

	infer "github.com/google/jsonschema-go/jsonschema"

	"github.com/troupe-run/troupe/codec"
)

// A Tag holds what the form tag of a struct's field says of the field's values. Forms for users and arguments of tools
// read the same tags; [ReadTag] has checked that the properties fit the type of the field and each other.
type Tag struct {
	Title            string
	Enum, Titles     []string        // of a string, or of the elements of a list; nil for none
	Default          json.RawMessage // nil for none
	Least, Most      *int64          // how many characters a string has, or how many elements a list
	Minimum, Maximum *float64        // of a number
	Format           string          // of a string, as are the others
	Pattern          string
	Header           string // the header that repeats an argument
}

var (
	tagKeys    = []string{"title", "enum", "titles", "default", "min", "max", "format", "pattern", "header"}
	tagFormats = []string{"email", "uri", "date", "date-time"}
)

// ReadTag reads the form tag of a field. It fails for a property that it does not know or that the type of the field does
// not have, and for bounds that allow no value. [CheckDefault] looks at the default.
func ReadTag(field reflect.StructField) (*Tag, error) {
	text := field.Tag.Get("form")
	properties, err := readProperties(text)
	if err != nil {
		return nil, err
	}
	t := pointedType(field.Type)
	tag := new(Tag)
	tag.Title, _ = properties.take("title")
	switch tagsOf(t) {
	case tagsString:
		err = tag.text(properties)
	case tagsBool:
		err = tag.truth(properties)
	case tagsNumber:
		err = tag.number(properties, t)
	case tagsList:
		err = tag.list(properties, t)
	}
	for _, key := range tagKeys {
		if _, left := properties[key]; left && err == nil {
			err = fmt.Errorf("a %v has no %s", t, key)
		}
	}
	if err != nil {
		return nil, fmt.Errorf("%w (form:%q)", err, text)
	}
	return tag, nil
}

// tagged says which properties values of a type have.
type tagged uint8

const (
	tagsNothing tagged = iota // but a title
	tagsString
	tagsBool
	tagsNumber
	tagsList
)

func tagsOf(t reflect.Type) tagged {
	if _, itself := known[t]; itself || implementsInterface(t, jsonMethods[decoded]) {
		return tagsNothing
	}
	switch kind := t.Kind(); {
	case implementsInterface(t, textMethods[decoded]), kind == reflect.String:
		return tagsString
	case kind == reflect.Bool:
		return tagsBool
	case reflect.Int <= kind && kind <= reflect.Float64 && kind != reflect.Uintptr:
		return tagsNumber
	case kind == reflect.Slice && t.Elem().Kind() != reflect.Uint8:
		return tagsList
	}
	return tagsNothing
}

// properties are the values in a form tag by their keys.
type properties map[string]string

// readProperties takes a tag apart. A pattern goes on to the end of the tag, as it may have semicolons.
func readProperties(text string) (properties, error) {
	all := properties{}
	for rest := text; rest != ""; {
		part, after, _ := strings.Cut(rest, ";")
		key, value, ok := strings.Cut(part, "=")
		if key = strings.TrimSpace(key); key == "pattern" && ok {
			_, value, _ = strings.Cut(rest, "=")
			after = ""
		}
		rest = after
		if strings.TrimSpace(part) == "" {
			continue
		}
		if _, twice := all[key]; !ok || twice || !slices.Contains(tagKeys, key) {
			return nil, fmt.Errorf("its form tag %q has %q, which is not a known KEY=VALUE or comes twice", text, part)
		}
		all[key] = value
	}
	return all, nil
}

// take returns the value of a key, and notes that it was used.
func (p properties) take(key string) (string, bool) {
	value, ok := p[key]
	delete(p, key)
	return value, ok
}

// values returns the list of a key, nil if there is none.
func (p properties) values(key string) []string {
	if value, ok := p.take(key); ok {
		return strings.Split(value, "|")
	}
	return nil
}

// choices reads the values of an enum, and the default among them.
func (tag *Tag) choices(p properties, presets []string) error {
	tag.Enum, tag.Titles = p.values("enum"), p.values("titles")
	for i, v := range tag.Enum {
		if slices.Contains(tag.Enum[:i], v) {
			return fmt.Errorf("its enum has %q twice", v)
		}
	}
	if tag.Titles != nil && len(tag.Titles) != len(tag.Enum) {
		return fmt.Errorf("%d titles for %d values", len(tag.Titles), len(tag.Enum))
	}
	for _, v := range presets {
		if tag.Enum != nil && !slices.Contains(tag.Enum, v) {
			return fmt.Errorf("the default %q is none of the values", v)
		}
	}
	return nil
}

func (tag *Tag) text(p properties) (err error) {
	preset, has := p.take("default")
	if has {
		if tag.Default, err = json.Marshal(preset); err != nil {
			return err
		}
	}
	tag.Header, _ = p.take("header")
	presets := []string{preset}
	if !has {
		presets = nil
	}
	if err = tag.choices(p, presets); err != nil || tag.Enum != nil {
		return err // an enum has neither bounds nor a format
	}
	if tag.Least, tag.Most, err = bounds[int64](p, 0, math.MaxInt64); err != nil {
		return err
	}
	var formatted bool
	if tag.Format, formatted = p.take("format"); formatted && !slices.Contains(tagFormats, tag.Format) {
		return fmt.Errorf("there is no format %s: want %s", tag.Format, strings.Join(tagFormats, ", "))
	}
	tag.Pattern, _ = p.take("pattern")
	if _, err = regexp.Compile(tag.Pattern); err != nil {
		return fmt.Errorf("its pattern is none: %w", err)
	}
	return nil
}

func (tag *Tag) truth(p properties) error {
	tag.Header, _ = p.take("header")
	text, ok := p.take("default")
	if !ok {
		return nil
	}
	preset, err := strconv.ParseBool(text)
	if err != nil {
		return fmt.Errorf("default=%s is neither true nor false", text)
	}
	tag.Default = strconv.AppendBool(nil, preset)
	return nil
}

func (tag *Tag) number(p properties, t reflect.Type) (err error) {
	tag.Header, _ = p.take("header")
	whole := t.Kind() < reflect.Float32
	least, most := rangeOf(t)
	if tag.Minimum, tag.Maximum, err = bounds(p, least, most); err != nil {
		return err
	}
	if whole && tag.Minimum != nil && tag.Maximum != nil && math.Ceil(*tag.Minimum) > *tag.Maximum {
		return fmt.Errorf("no whole number is between min=%v and max=%v", *tag.Minimum, *tag.Maximum)
	}
	preset, err := numberOf[float64](p, "default")
	if err != nil || preset == nil {
		return err
	}
	if whole && *preset != math.Trunc(*preset) {
		return fmt.Errorf("the default %v is no whole number", *preset)
	}
	tag.Default, err = json.Marshal(*preset)
	return err
}

func (tag *Tag) list(p properties, t reflect.Type) (err error) {
	if tagsOf(t.Elem()) == tagsString {
		presets := p.values("default")
		if err = tag.choices(p, presets); err != nil {
			return err
		}
		if presets != nil {
			if tag.Default, err = json.Marshal(presets); err != nil {
				return err
			}
		}
	}
	tag.Least, tag.Most, err = bounds[int64](p, 0, math.MaxInt64)
	return err
}

// bounds returns the min and the max of a tag, nil where there is none. They must allow
// some value between least and most, which bound all possible values.
func bounds[N int64 | float64](p properties, least, most N) (low, high *N, err error) {
	low, err = numberOf[N](p, "min")
	high, err2 := numberOf[N](p, "max")
	if err = errors.Join(err, err2); err != nil {
		return nil, nil, err
	}
	switch {
	case low != nil && high != nil && *low > *high:
		err = fmt.Errorf("min=%v is above max=%v", *low, *high)
	case low != nil && *low > most:
		err = fmt.Errorf("min=%v is above the %v that is possible", *low, most)
	case high != nil && *high < least:
		err = fmt.Errorf("max=%v is below the %v that is possible", *high, least)
	}
	return low, high, err
}

// numberOf returns the number of a key, nil if there is none.
func numberOf[N int64 | float64](p properties, key string) (*N, error) {
	text, ok := p.take(key)
	if !ok {
		return nil, nil
	}
	v, err := strconv.ParseFloat(text, 64)
	if n := N(v); err == nil && float64(n) == v && !math.IsInf(v, 0) {
		return &n, nil
	}
	return nil, fmt.Errorf("%s=%s is no number that fits", key, text)
}

// rangeOf returns the least and the greatest number of a type, as far as a float64 has them.
func rangeOf(t reflect.Type) (least, most float64) {
	switch kind := t.Kind(); {
	case kind == reflect.Float32:
		return -math.MaxFloat32, math.MaxFloat32
	case kind == reflect.Float64:
		return -math.MaxFloat64, math.MaxFloat64
	case kind >= reflect.Uint:
		return 0, math.Floor(math.Nextafter(math.Ldexp(1, t.Bits()), 0))
	}
	least = -math.Ldexp(1, t.Bits()-1)
	return least, math.Floor(math.Nextafter(-least, 0))
}

// CheckDefault fails for a default of a field of type t that does not fit the schema of the field, its format included, or
// does not decode into t.
func CheckDefault(schema, preset json.RawMessage, t reflect.Type) error {
	check, err := Form(schema)
	if err != nil {
		return err
	}
	if err = check.Validate(preset); err == nil {
		err = codec.Unmarshal(preset, reflect.New(t).Interface())
	}
	if err != nil {
		return fmt.Errorf("the default %s does not fit: %s", preset, strings.TrimPrefix(err.Error(), "at '': "))
	}
	return nil
}

// bound adds the properties of a tag to the schema of an argument of the type t. A required one with a least size takes no
// null, which would have the handler get less.
func (tag *Tag) bound(s *infer.Schema, t reflect.Type, optional bool) error {
	if tag.Titles != nil {
		return errors.New("titles are for forms, which users see: say in the jsonschema tag what the values mean")
	}
	if s.Types != nil && (tag.Header != "" || tag.Least != nil && *tag.Least > 0 && !optional) {
		s.Type, s.Types = s.Types[1], nil
	}
	s.Title, s.Default = tag.Title, tag.Default
	if tag.Minimum != nil && (s.Minimum == nil || *s.Minimum < *tag.Minimum) {
		s.Minimum = tag.Minimum
	}
	if tag.Maximum != nil && (s.Maximum == nil || *s.Maximum > *tag.Maximum) {
		s.Maximum = tag.Maximum
	}
	if tag.Header != "" {
		s.Extra = map[string]any{headerAnnotation: tag.Header}
	}
	chosen := s
	if tagsOf(t) == tagsList {
		chosen, s.MinItems, s.MaxItems = s.Items, size(tag.Least), size(tag.Most)
	} else {
		s.MinLength, s.MaxLength, s.Pattern = size(tag.Least), size(tag.Most), tag.Pattern
		if tag.Format != "" {
			s.Format = tag.Format
		}
	}
	for _, v := range tag.Enum {
		chosen.Enum = append(chosen.Enum, v)
	}
	if chosen.Enum != nil && chosen.Types != nil {
		chosen.Enum = append(chosen.Enum, nil)
	}
	if tag.Default == nil {
		return nil
	}
	text, err := json.Marshal(s)
	if err != nil {
		return err
	}
	return CheckDefault(text, tag.Default, t)
}

// size is a bound of a size as the inferring module has it.
func size(n *int64) *int {
	if n == nil {
		return nil
	}
	return infer.Ptr(int(min(*n, math.MaxInt)))
}
