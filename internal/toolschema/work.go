package toolschema

import (
	"encoding/json"
	"errors"
	"math"
	"sync"

	"github.com/santhosh-tekuri/jsonschema/v6"

	"github.com/troupe-run/troupe/internal/limits"
)

// Bounds of the work that one validation may take, for whoever sends arguments that
// are made to take long (2026-07-28, basic/index, "Composition-Keyword Resource Use").
// A step is one schema held against one value, or one member of a value that was.
const (
	minSteps     = 1 << 13 // however small the value
	stepsPerByte = 4
	maxUncounted = 64 // schemas that one value may be held against without counting
)

var (
	maxSteps    = limits.Steps.Value()  // however large the value
	maxNumber   = limits.Digits.Value() // characters of a number
	maxExponent = limits.Exponent.Value()
)

// What a value is refused for before it is known whether it fits.
var (
	errMuchWork  = errors.New("too many combinations would have to be tried")
	errBadNumber = errors.New("a number is too long or its exponent too large")
	errCycle     = errors.New("a reference leads back to its own schema")
)

// checker is a compiled schema.
type checker struct {
	text    json.RawMessage
	formats bool // they are asserted
	schema  *jsonschema.Schema
	spread  float64   // schemas that one value may be held against; infinite where a schema refers to itself
	copies  sync.Pool // of *countedSchema
}

func newChecker(text json.RawMessage, formats bool) (*checker, error) {
	s, err := compile(text, formats)
	if err != nil {
		return nil, err
	}
	spread, err := (&spreads{known: map[*jsonschema.Schema]float64{}, open: map[*jsonschema.Schema]int{}}).of(s)
	if err != nil {
		return nil, err
	}
	return &checker{text: text, formats: formats, schema: s, spread: spread}, nil
}

// check holds v, which was size bytes of JSON, against the schema. The steps of most
// schemas grow with the size alone, and are not counted. Of those that refer to
// themselves, or hold one value against very many schemas, a copy is used that counts,
// and that no other goroutine has meanwhile.
func (c *checker) check(v any, size int) error {
	if c.spread <= maxUncounted {
		return c.schema.Validate(v)
	}
	s, _ := c.copies.Get().(*countedSchema)
	if s == nil {
		own, err := compile(c.text, c.formats)
		if err != nil {
			return err // it was compiled before
		}
		s = newCountedSchema(own)
	}
	defer c.copies.Put(s)
	return s.check(v, min(minSteps+stepsPerByte*size, maxSteps))
}

// countedSchema is a compiled schema whose every part counts how often it is used.
type countedSchema struct {
	schema *jsonschema.Schema
	left   int
}

func newCountedSchema(s *jsonschema.Schema) *countedSchema {
	c := &countedSchema{schema: s}
	seen := map[*jsonschema.Schema]bool{}
	var count func(*jsonschema.Schema)
	count = func(s *jsonschema.Schema) {
		if seen[s] {
			return
		}
		seen[s] = true
		c.count(s)
		for _, e := range edges(s) {
			count(e.to)
		}
	}
	count(s)
	return c
}

// count has s counted. A format is what is looked at before any of the parts of a
// schema, and it is the only thing there that can be of our making.
func (c *countedSchema) count(s *jsonschema.Schema) {
	inner := s.Format
	name := ""
	if inner != nil {
		name = inner.Name
	}
	s.Format = &jsonschema.Format{Name: name, Validate: func(v any) error {
		c.left--
		switch v := v.(type) {
		case map[string]any:
			c.left -= len(v)
		case []any:
			c.left -= len(v)
		}
		if c.left < 0 {
			panic(errMuchWork)
		}
		if inner != nil {
			return inner.Validate(v)
		}
		return nil
	}}
}

func (c *countedSchema) check(v any, steps int) (err error) {
	c.left = steps
	defer func() {
		if r := recover(); r != nil {
			if r != errMuchWork {
				panic(r)
			}
			err = errMuchWork
		}
	}()
	return c.schema.Validate(v)
}

// edge leads from a schema to another one.
type edge struct {
	to *jsonschema.Schema
	on edgeKind
}

// edgeKind says what of a value the other schema is held against.
type edgeKind uint8

const (
	onSelf   edgeKind = iota // the same value
	onMember                 // one member or element, that no other edge of this kind leads to
	onAll                    // all members or elements
)

// edges are the ways that lead on from s.
func edges(s *jsonschema.Schema) (out []edge) {
	add := func(on edgeKind, to ...*jsonschema.Schema) {
		for _, s := range to {
			if s != nil {
				out = append(out, edge{s, on})
			}
		}
	}
	maybe := func(on edgeKind, v any) {
		if to, ok := v.(*jsonschema.Schema); ok {
			add(on, to)
		}
	}
	add(onSelf, s.Ref, s.RecursiveRef, s.Not, s.If, s.Then, s.Else)
	if s.DynamicRef != nil {
		add(onSelf, s.DynamicRef.Ref)
	}
	add(onSelf, s.AllOf...)
	add(onSelf, s.AnyOf...)
	add(onSelf, s.OneOf...)
	for _, d := range s.Dependencies {
		maybe(onSelf, d)
	}
	for _, to := range s.DependentSchemas {
		add(onSelf, to)
	}
	for _, to := range s.Properties {
		add(onMember, to)
	}
	add(onMember, s.PrefixItems...)
	if items, ok := s.Items.([]*jsonschema.Schema); ok {
		add(onMember, items...)
	}
	for _, to := range s.PatternProperties {
		add(onAll, to)
	}
	maybe(onAll, s.AdditionalProperties)
	maybe(onAll, s.Items)
	maybe(onAll, s.AdditionalItems)
	add(onAll, s.PropertyNames, s.UnevaluatedProperties, s.Contains, s.Items2020, s.UnevaluatedItems, s.ContentSchema)
	return out
}

// spreads works out how many schemas a value may be held against.
type spreads struct {
	known map[*jsonschema.Schema]float64
	open  map[*jsonschema.Schema]int // the level of those that lead here
	level int                        // how many edges to members or elements lead here
}

// of bounds, for any one value inside of a value that s is held against, the number
// of schemas that it is held against for that: s itself, all that are held against
// the same value, and those of the members on the way. It fails when a value would be
// held against a schema in order to hold it against that schema.
func (p *spreads) of(s *jsonschema.Schema) (float64, error) {
	if n, ok := p.known[s]; ok {
		return n, nil
	}
	if level, ok := p.open[s]; ok {
		if level == p.level {
			return 0, errCycle
		}
		return math.Inf(1), nil
	}
	p.open[s] = p.level
	total, most := 1.0, 0.0
	if s.DynamicRef != nil || s.RecursiveRef != nil {
		total = math.Inf(1) // where they lead depends on the way there
	}
	for _, e := range edges(s) {
		if e.on != onSelf {
			p.level++
		}
		n, err := p.of(e.to)
		if e.on != onSelf {
			p.level--
		}
		if err != nil {
			return 0, err
		}
		if e.on == onMember {
			most = max(most, n)
		} else {
			total += n
		}
	}
	delete(p.open, s)
	p.known[s] = total + most
	return total + most, nil
}

// checkNumbers refuses numbers that cost more to compare than to send: 1e999999 takes
// a tenth of a second.
func checkNumbers(v any) error {
	switch v := v.(type) {
	case json.Number:
		if !handy(string(v)) {
			return errBadNumber
		}
	case map[string]any:
		for _, e := range v {
			if err := checkNumbers(e); err != nil {
				return err
			}
		}
	case []any:
		for _, e := range v {
			if err := checkNumbers(e); err != nil {
				return err
			}
		}
	}
	return nil
}

func handy(number string) bool {
	if len(number) > maxNumber {
		return false
	}
	for i := range len(number) {
		if c := number[i]; c != 'e' && c != 'E' {
			continue
		}
		exp := 0
		for _, c := range []byte(number[i+1:]) {
			if isDigit(c) {
				if exp = exp*10 + int(c-'0'); exp > maxExponent {
					return false
				}
			}
		}
	}
	return true
}
