package protocol_test

import (
	"encoding/base64"
	"encoding/json"
	"fmt"
	"math/rand/v2"
	"slices"
	"strconv"
	"strings"
	"testing"
)

// generator makes random values that fit a definition. Optional members are present
// half of the time, and then never the empty string, list or map that counts as
// absent.
type generator struct {
	*rand.Rand
	defs map[string]*schema
	full bool // every optional member is present, and every list has one of each kind
}

// TestGeneratedValuesRoundTrip makes values of every definition from the schema.
func TestGeneratedValuesRoundTrip(t *testing.T) {
	t.Parallel()
	for _, o := range officials {
		t.Run(o.revision.String(), func(t *testing.T) {
			t.Parallel()
			o.testGenerated(t)
		})
	}
}

func (o official) testGenerated(t *testing.T) {
	rounds := uint64(40)
	switch {
	case testing.Short():
		rounds = 2
	case raceEnabled:
		rounds = 5 // nothing here is shared between goroutines
	}
	defs, _ := loadSchema(t, o.revision.String())
	v := officialValidator(t, o.revision.String())
	var names []string
	for name := range defs {
		if !slices.Contains(abstract, name) {
			names = append(names, name)
		}
	}
	slices.Sort(names)
	for seed := range rounds {
		g := generator{rand.New(rand.NewPCG(seed, 20251125)), defs, false}
		for _, name := range names {
			sample := []byte(g.value(defs[name], name, true, 0))
			if !json.Valid(sample) {
				t.Fatalf("seed %d: %s: the generator made %s", seed, name, sample)
			}
			if err := v.check(name, sample); err != nil {
				t.Fatalf("seed %d: %s: the generator made %s: %v", seed, name, sample, err)
			}
			for coder := range coders {
				out := o.roundTrip(t, coder, name, sample)
				if out == nil {
					continue
				}
				if err := v.check(name, out); err != nil {
					t.Errorf("seed %d: %s: encoded by %s as %s, which is not legal: %v", seed, name, coder, out, err)
				}
			}
			if t.Failed() {
				return
			}
		}
	}
}

// abstract definitions are extended by others with more required members and never
// stand alone.
var abstract = []string{"Icons", "PaginatedResult", "TaskAugmentedRequestParams", "CacheableResult", "InputResponseRequestParams"}

// bareMessages lack the jsonrpc member in the schema, though no message does.
var bareMessages = []string{"Request", "Notification"}

func (g generator) value(s *schema, path string, required bool, depth int) string {
	switch {
	case s.Ref != "":
		name := s.ref()
		if name == "RequestId" || name == "ProgressToken" {
			return []string{`0`, `""`, `"\u00e9"`, `9007199254740993`, `-7`}[g.IntN(5)]
		}
		return g.value(g.defs[name], path, required, depth)
	case s.Const != nil:
		return text(s.Const)
	case len(s.Enum) > 0:
		return text(s.Enum[g.IntN(len(s.Enum))])
	case len(s.AnyOf) > 0:
		return g.value(s.AnyOf[g.IntN(len(s.AnyOf))], path, required, depth)
	case len(s.AllOf) > 0 || s.Type == "object":
		return g.object(s, path, required, depth)
	}
	kind := s.Type
	if kinds, ok := kind.([]any); ok {
		kind = kinds[g.IntN(len(kinds))]
	}
	switch kind {
	case "null":
		return "null"
	case "boolean":
		return strconv.FormatBool(g.IntN(2) == 0)
	case "integer":
		if s.Minimum != nil {
			return strconv.FormatInt(g.Int64N(1<<53), 10)
		}
		return strconv.FormatInt(g.Int64N(1<<53)-1<<52, 10)
	case "number":
		if s.Minimum != nil && s.Maximum != nil {
			return []string{"0", "1", "0.25", "1.0"}[g.IntN(4)]
		}
		return []string{"0", "-1.5", "1e3", "2.50"}[g.IntN(4)]
	case "array":
		return g.array(s, path, required, depth)
	case "string":
		return g.string(s, path, required)
	case nil:
		return g.anything(depth)
	}
	panic(fmt.Sprintf("%s: a schema the generator does not know: %+v", path, s))
}

func (g generator) object(s *schema, path string, required bool, depth int) string {
	props, needed := gather(g.defs, s)
	names := make([]string, 0, len(props))
	for name := range props {
		names = append(names, name)
	}
	slices.Sort(names)
	g.Shuffle(len(names), func(i, j int) { names[i], names[j] = names[j], names[i] })
	var members []string
	for _, name := range names {
		if !needed[name] && (depth > 6 || !g.full && g.IntN(2) == 0) {
			continue
		}
		value := g.value(props[name], path+"."+name, needed[name], depth+1)
		members = append(members, text(name)+":"+value)
	}
	if slices.Contains(bareMessages, path) {
		members = append(members, `"jsonrpc":"2.0"`)
		if path == "Request" {
			members = append(members, `"id":1`)
		}
	}
	// Members beyond the schema survive where it says that any are allowed.
	if len(s.Additional) > 0 && path != "Result" && path != "EmptyResult" {
		var of schema
		if s.Additional[0] == '{' {
			if err := json.Unmarshal(s.Additional, &of); err != nil {
				panic(err)
			}
		}
		n := g.IntN(3)
		if !required && len(props) == 0 && n == 0 {
			n = 1
		}
		for i := range n {
			members = append(members, fmt.Sprintf(`"x%d/é":%s`, i, g.value(&of, path+".*", true, depth+1)))
		}
	}
	return "{" + strings.Join(members, ",") + "}"
}

func (g generator) array(s *schema, path string, required bool, depth int) string {
	if kinds := g.kinds(s.Items); g.full && depth <= 6 {
		elements := make([]string, len(kinds))
		for i, kind := range kinds {
			elements[i] = g.value(kind, path+"[]", true, depth+1)
		}
		return "[" + strings.Join(elements, ",") + "]"
	}
	n := g.IntN(3)
	if depth > 6 {
		n = 0
	}
	if n == 0 && !required {
		n = 1
	}
	elements := make([]string, n)
	for i := range elements {
		elements[i] = g.value(s.Items, path+"[]", true, depth+1)
	}
	return "[" + strings.Join(elements, ",") + "]"
}

// kinds returns the members of a union, with the members of unions in it.
func (g generator) kinds(s *schema) []*schema {
	of := s
	if of.Ref != "" {
		of = g.defs[of.ref()]
	}
	if len(of.AnyOf) == 0 {
		return []*schema{s}
	}
	var all []*schema
	for _, part := range of.AnyOf {
		all = append(all, g.kinds(part)...)
	}
	return all
}

func (g generator) string(s *schema, path string, required bool) string {
	switch s.Format {
	case "byte":
		return text(base64.StdEncoding.EncodeToString([]byte("data")[:g.IntN(5)]))
	case "uri":
		return text([]string{"file:///a b", "https://x.example/?a=<&>", "x:"}[g.IntN(3)])
	}
	n := g.IntN(5)
	if n == 0 && (!required || strings.HasSuffix(path, ".elicitationId") || strings.HasSuffix(path, ".resultType")) {
		n = 1
	}
	return []string{`""`, `"text"`, `"\u00e9\n\"\\"`, `"可选\u2028<&>"`, `"😀"`}[n]
}

func (g generator) anything(depth int) string {
	values := []string{`null`, `true`, `0`, `1.0`, `12345678901234567890`, `"<&>"`, `{"b":1.50,"a":[]}`, `[1,{"b":2,"a":3}]`}
	return values[g.IntN(len(values))]
}

func text(v any) string {
	data, err := stdMarshal(v)
	if err != nil {
		panic(err)
	}
	return string(data)
}
