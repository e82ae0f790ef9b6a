package toolschema

import (
	"bytes"
	"encoding/json"
	"errors"
	"math"
	"sync"

	"github.com/santhosh-tekuri/jsonschema/v6"

	"github.com/troupe-run/troupe/internal/limits"
)

// Bounds of the work of one validation, because a client may send arguments that are made to
// take long (2026-07-28, basic/index, "Composition-Keyword Resource Use"). A step is one
// schema checked against one value, or one member of a value that was checked.
const (
	minSteps     = 1 << 13 // however small the value
	stepsPerByte = 8
	// deepPerByte is stepsPerByte for schemas that refer to themselves, whose alternatives may double the work with each
	// level of the value.
	deepPerByte = 4
	smallSize   = 1 << 10 // of a value whose faults are looked for at once
	namedPart   = 2       // those of a larger one within minSteps, and a step for each so many bytes
)

var (
	maxSteps    = limits.Steps.Value()  // however large the value
	maxNumber   = limits.Digits.Value() // characters of a number
	maxExponent = limits.Exponent.Value()
)

// Refusals of a value that name no fault.
var (
	errMuchWork  = errors.New("too many combinations would have to be tried")
	errUnnamed   = errors.New("they do not fit the schema, and it takes too long to say where")
	errBadNumber = errors.New("a number is too long or its exponent too large")
	errCycle     = errors.New("a reference leads back to its own schema")
)

// checker is a compiled schema.
type checker struct {
	forms
	text    json.RawMessage
	formats bool      // "format" is asserted
	spread  float64   // schemas that one value may be checked against; infinite where a schema refers to itself
	copies  sync.Pool // of *countedSchema

	plan   *plan
	simple bool // there is a plan, nil if the schema allows everything
}

func newChecker(text json.RawMessage, formats bool) (*checker, error) {
	f, err := compileText(text, formats)
	if err != nil {
		return nil, err
	}
	spread, err := (&spreads{known: map[*jsonschema.Schema]float64{}, open: map[*jsonschema.Schema]int{}}).of(f.schema)
	if err != nil {
		return nil, err
	}
	c := &checker{forms: f, text: text, formats: formats, spread: spread}
	if !formats {
		doc, err := jsonschema.UnmarshalJSON(bytes.NewReader(text))
		if err != nil {
			return nil, err
		}
		c.plan, c.simple = planOf(doc)
	}
	return c, nil
}

// check checks v, which was size bytes of JSON, against the schema. Where that may take more than few
// steps, it uses a copy that counts, and that no other goroutine uses meanwhile. It first finds out whether a large value
// fits, and looks for what does not within few steps: the validator keeps each fault until it has the last one.
func (c *checker) check(v any, size int) error {
	if c.spread*float64(size) <= minSteps { // each value, and each member, has a byte
		return c.schema.Validate(v)
	}
	s, err := c.copy()
	if err != nil {
		return err // an error of compiling, which was tried before
	}
	defer c.copies.Put(s)
	if size <= smallSize {
		return s.check(s.schema, v, c.steps(size))
	}
	err = s.check(s.whether, v, c.steps(size))
	if _, fits := errors.AsType[*jsonschema.ValidationError](err); fits {
		return nil
	}
	if err == nil {
		err = s.check(s.schema, v, minSteps+size/namedPart)
		if err == errMuchWork {
			return errUnnamed
		}
	}
	return err
}

// steps is how many steps a value of size bytes may take.
func (c *checker) steps(size int) int {
	if math.IsInf(c.spread, 1) {
		return min(minSteps+deepPerByte*size, maxSteps)
	}
	return min(minSteps+stepsPerByte*size, maxSteps)
}

// copy returns a copy of the schema that counts.
func (c *checker) copy() (*countedSchema, error) {
	if s, ok := c.copies.Get().(*countedSchema); ok {
		return s, nil
	}
	own, err := compileText(c.text, c.formats)
	if err != nil {
		return nil, err
	}
	return newCountedSchema(own), nil
}

// countedSchema is a compiled schema that counts each use of its parts.
type countedSchema struct {
	forms
	left int
}

func newCountedSchema(f forms) *countedSchema {
	c := &countedSchema{forms: f}
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
	count(f.schema)
	return c
}

// count makes s count the schemas that it leads on to, and the members of its value. Of what a client can make dear, the
// validator asks the type before a format, and a schema of another type would not count itself. A format is the only
// part of a schema there that can be ours.
func (c *countedSchema) count(s *jsonschema.Schema) {
	self, each := 1, 1
	for _, e := range edges(s) {
		switch e.on {
		case onSelf:
			self++
		case onAll:
			each++
		}
	}
	inner := s.Format
	name := ""
	if inner != nil {
		name = inner.Name
	}
	s.Format = &jsonschema.Format{Name: name, Validate: func(v any) error {
		c.left -= self
		switch v := v.(type) {
		case map[string]any:
			c.left -= each * len(v)
		case []any:
			c.left -= each * len(v)
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

// check checks v against one of the forms of c.
func (c *countedSchema) check(form *jsonschema.Schema, v any, steps int) (err error) {
	c.left = steps
	defer func() {
		if r := recover(); r != nil {
			if r != errMuchWork {
				panic(r)
			}
			err = errMuchWork
		}
	}()
	return form.Validate(v)
}

// edge leads from a schema to another one.
type edge struct {
	to *jsonschema.Schema
	on edgeKind
}

// edgeKind says which part of a value the other schema is checked against.
type edgeKind uint8

const (
	onSelf   edgeKind = iota // the same value
	onMember                 // one member or element that no other edge of this kind leads to
	onAll                    // all members or elements
)

// edges returns the edges that lead on from s.
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

// spreads computes how many schemas a value may be checked against.
type spreads struct {
	known map[*jsonschema.Schema]float64
	open  map[*jsonschema.Schema]int // the level of those being computed
	level int                        // how many edges to members or elements lead here
}

// of returns a bound, for any one value inside of a value that s is checked against, on the
// number of schemas that it is checked against because of s: s itself, all schemas for the
// same value, and those of the members on the way. It fails if checking a value against a
// schema would require checking it against the same schema.
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

// checkNumbers refuses numbers that cost more to compare than to send: 1e999999 takes a
// tenth of a second.
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
