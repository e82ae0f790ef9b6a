package template

import (
	"cmp"
	"fmt"
	"net/url"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"unicode/utf8"

	"github.com/yosida95/uritemplate/v3"
)

// Template is a template that URIs can be matched against.
type Template struct {
	uri   *regexp.Regexp
	slots []slot // in the order in which their values are compared
}

// slot is a group of the regular expression.
type slot struct {
	group int
	variable
	separator string     // of the elements of an exploded list or of params, "" for others
	params    []variable // of a group of parameters: they are found by name
}

// variable is a variable of an expression with its modifier.
type variable struct {
	name    string
	most    int // its longest prefix, in characters; 0 without a prefix modifier
	explode bool
}

// part is an expression of a template or, without variables, the text between two of them.
type part struct {
	text string // as the template has it
	op   byte   // the operator, 0 without
	vars []variable
}

// maxPrefix bounds prefix modifiers: a regular expression repeats nothing more often.
const maxPrefix = 1000

// hasNames reports whether the expression has the names of its variables before their values.
func (p *part) hasNames() bool { return len(p.vars) > 0 && strings.IndexByte(";?&", p.op) >= 0 }

// leadChar returns what the expansion of an expression begins with, "" for nothing of its own.
func (p *part) leadChar() string {
	if p.op == 0 || p.op == '+' {
		return ""
	}
	return string(p.op)
}

// separator returns what the values of an expression are separated by.
func (p *part) separator() string {
	switch p.op {
	case 0, '+', '#':
		return ","
	case '?':
		return "&"
	}
	return string(p.op)
}

// New returns a template. It fails where RFC 6570 has no such template, and where a URI does not say which part of it is the
// value of which variable.
func New(text string) (*Template, error) {
	if _, err := uritemplate.New(text); err != nil {
		return nil, err
	}
	parts, err := mergeQuery(parse(text))
	if err != nil {
		return nil, err
	}
	normalizeParts(parts)
	t := &Template{}
	b := pattern{t: t}
	b.WriteString(`\A`)
	for i := range parts {
		if err := b.add(parts, i); err != nil {
			return nil, err
		}
	}
	b.WriteString(`\z`)
	if t.uri, err = regexp.Compile(b.String()); err != nil {
		return nil, fmt.Errorf("%s is too long to be matched", text)
	}
	// Whole values come before prefixes of them, and long prefixes before short ones.
	slices.SortStableFunc(t.slots, func(a, b slot) int {
		if a.most == 0 || b.most == 0 {
			return cmp.Compare(a.most, b.most)
		}
		return cmp.Compare(b.most, a.most)
	})
	return t, nil
}

// parse takes the text of a valid template apart.
func parse(text string) (parts []part) {
	for text != "" {
		begin := strings.IndexByte(text, '{')
		if begin < 0 {
			begin = len(text)
		}
		if begin > 0 {
			parts = append(parts, part{text: text[:begin]})
			text = text[begin:]
			continue
		}
		end := strings.IndexByte(text, '}') + 1
		p := part{text: text[:end]}
		list := text[1 : end-1]
		if strings.IndexByte("+#./;?&", list[0]) >= 0 {
			p.op, list = list[0], list[1:]
		}
		for spec := range strings.SplitSeq(list, ",") {
			var v variable
			v.name, v.explode = strings.CutSuffix(spec, "*")
			if name, most, ok := strings.Cut(v.name, ":"); ok {
				v.name = name
				v.most, _ = strconv.Atoi(most) // the template is valid
			}
			p.vars = append(p.vars, v)
		}
		parts = append(parts, p)
		text = text[end:]
	}
	return parts
}

// mergeQuery returns the parts with one expression for all parameters of the query, which must end the URI but for its fragment:
// they are found by name, in any order.
func mergeQuery(parts []part) (out []part, _ error) {
	var query *part
	for _, p := range parts {
		inQuery := len(p.vars) > 0 && (p.op == '?' || p.op == '&')
		switch {
		case query == nil:
			out = append(out, p)
			if inQuery {
				query = &out[len(out)-1]
			}
		case p.op == '&' && inQuery:
			query.text += p.text
			query.vars = append(slices.Clip(query.vars), p.vars...)
		case p.op == '#' || strings.HasPrefix(p.text, "#"):
			out = append(out, p)
			query = nil
		default:
			return nil, fmt.Errorf("%s stands behind %s, whose parameters may come in any order: write what never changes before them, as in ?kind=a{&page}, and only a fragment behind them", p.text, query.text)
		}
	}
	return out, nil
}

// normalizeParts spells the text between expressions as [NormalizeURI] spells that of a URI.
func normalizeParts(parts []part) {
	var all strings.Builder // with one byte for each expression: what its expansion begins with, if that is known
	for i := range parts {
		if p := &parts[i]; p.vars != nil {
			all.WriteString(cmp.Or(p.leadChar(), "\x00"))
		} else {
			p.text = normalizeEscapes(p.text)
			all.WriteString(p.text)
		}
	}
	spelled := lowerSchemeAndHost(all.String())
	for i := range parts {
		n := 1
		if p := &parts[i]; p.vars == nil {
			n = len(p.text)
			p.text = spelled[:n]
		}
		spelled = spelled[n:]
	}
}

// pattern is the regular expression of a template as it is built.
type pattern struct {
	strings.Builder
	t      *Template
	groups int
}

// escape is an escape as [NormalizeURI] has it, and escapes are those of one character, in UTF-8. They repeat nothing, because a
// repetition within that of a prefix would count against maxPrefix.
const (
	escape  = "%[0-9A-F][0-9A-F]"
	more    = "%[89AB][0-9A-F]"
	escapes = "%[0-7][0-9A-F]|%[CD][0-9A-F]" + more + "|%E[0-9A-F]" + more + more + "|%F[0-7]" + more + more + more + "|" + escape
)

// add appends the regular expression of a part.
func (b *pattern) add(parts []part, i int) error {
	p := &parts[i]
	if p.vars == nil {
		b.WriteString(regexp.QuoteMeta(p.text))
		return nil
	}
	may := p.alphabet(parts[i+1:])
	if i+1 < len(parts) {
		if next := &parts[i+1]; next.vars != nil && (next.leadChar() == "" || strings.Contains(may, next.leadChar()) || p.op == ';' && next.op == ';') {
			return fmt.Errorf("nothing tells the values of %s and %s apart: write a text between them that their values do not have, as in {a}/{b}", p.text, next.text)
		}
	}
	if p.hasNames() {
		return b.addNamed(p, may)
	}
	for n, v := range p.vars {
		if v.explode && n+1 < len(p.vars) {
			return fmt.Errorf("%s has a variable behind the list %s*: write the list last", p.text, v.name)
		}
		before := p.separator()
		if n == 0 {
			before = p.leadChar()
		}
		if before != "" {
			b.WriteString("(?:" + regexp.QuoteMeta(before))
		}
		if err := b.addValue(p, v, may); err != nil {
			return err
		}
	}
	for n := range p.vars {
		if n > 0 || p.leadChar() != "" {
			b.WriteString(")?")
		}
	}
	return nil
}

// addNamed appends the group that has all parameters of an expression.
func (b *pattern) addNamed(p *part, may string) error {
	for i, v := range p.vars {
		if slices.ContainsFunc(p.vars[:i], func(w variable) bool { return w.name == v.name }) {
			return fmt.Errorf("%s has the parameter %s twice", p.text, v.name)
		}
	}
	lead, times := p.leadChar(), "?"
	switch {
	case p.op == ';':
		times = "*"
	case p.op == '?' && strings.Contains(p.text, "{&"): // without parameters of the first expression, those of the others begin with &
		lead = "?&"
	}
	b.WriteString("((?:[" + class(lead) + "]" + oneOf(may) + "*)" + times + ")")
	b.groups++
	b.t.slots = append(b.t.slots, slot{group: b.groups, params: p.vars, separator: p.separator()})
	return nil
}

// addValue appends the group of one value. A list has commas, which other values have escaped if may says so; of several
// values none has the separator.
func (b *pattern) addValue(p *part, v variable, may string) error {
	b.groups++
	s := slot{group: b.groups, variable: v}
	if v.most == 0 {
		may += ","
	}
	if len(p.vars) > 1 {
		may = removeBytes(may, p.separator())
	}
	switch {
	case v.most > maxPrefix:
		return fmt.Errorf("%s: a prefix has at most %d characters here: write {%s}", p.text, maxPrefix, v.name)
	case v.most > 0:
		fmt.Fprintf(b, "((?:[%s]|%s){0,%d})", class(may), escapes, v.most)
	case v.explode:
		s.separator = p.separator()
		b.WriteString("(" + oneOf(may+s.separator) + "*)")
	default:
		b.WriteString("(" + oneOf(may) + "*)")
	}
	b.t.slots = append(b.t.slots, s)
	return nil
}

// alphabet returns the bytes, beside escapes, that values of the expression may have: rest is what follows it. A reserved
// expansion ends where the template's own parameters, or the fragment, begin.
func (p *part) alphabet(rest []part) string {
	switch p.op {
	case '?', '&':
		return removeBytes(unreserved+reserved, "#")
	case ';':
		return removeBytes(unreserved+reserved, ";/?#")
	case '#':
		return unreserved + reserved
	case '+':
		may := unreserved + reserved
		for _, next := range rest {
			switch {
			case next.vars == nil && strings.Contains(next.text, "#"), next.vars != nil && next.op == '#':
				may = removeBytes(may, "#")
			case next.vars != nil && (next.op == '?' || next.op == '&'):
				may = removeBytes(may, "#"+next.leadChar())
			}
		}
		return may
	}
	return unreserved
}

// removeBytes returns the bytes of may that are not in not.
func removeBytes(may, not string) string {
	return strings.Map(func(c rune) rune {
		if strings.ContainsRune(not, c) {
			return -1
		}
		return c
	}, may)
}

// class returns bytes as the inside of a class of a regular expression, and oneOf an expression for one of them, or an escape.
func class(may string) string {
	return strings.ReplaceAll(regexp.QuoteMeta(may), "-", `\-`)
}

func oneOf(may string) string { return "(?:[" + class(may) + "]|" + escape + ")" }

// Match reports whether a URI, as [NormalizeURI] spells it, is an expansion of the template, and returns the variables that it
// has, without escapes. The elements of a list are joined by commas.
func (t *Template) Match(uri string) (map[string]string, bool) {
	at := t.uri.FindStringSubmatchIndex(uri)
	if at == nil {
		return nil, false
	}
	vars := make(map[string]string, len(t.slots))
	for _, s := range t.slots {
		from, to := at[2*s.group], at[2*s.group+1]
		switch {
		case from < 0: // undefined
		case s.params != nil:
			if !readParams(vars, s, uri[from:to]) {
				return nil, false
			}
		case !setVariable(vars, s.variable, s.separator, uri[from:to]):
			return nil, false
		}
	}
	return vars, true
}

// readParams reads the parameters of a query or a path segment. Others than the template's are ignored. A variable that comes
// twice is refused, unless it is a list: nothing says which of the values holds.
func readParams(vars map[string]string, s slot, text string) bool {
	if text == "" {
		return true
	}
	values := map[string]string{}
	for param := range strings.SplitSeq(text[1:], s.separator) {
		name, value, _ := strings.Cut(param, "=")
		i := slices.IndexFunc(s.params, func(v variable) bool { return normalizeEscapes(v.name) == name })
		if i < 0 {
			continue
		}
		name = s.params[i].name
		if old, twice := values[name]; twice {
			if !s.params[i].explode {
				return false
			}
			value = old + "," + value
		}
		values[name] = value
	}
	for _, v := range s.params {
		if value, ok := values[v.name]; ok && !setVariable(vars, v, "", value) {
			return false
		}
	}
	return true
}

// setVariable gives a variable its value. It reports false if the value is longer than the prefix that the template takes, or if it
// contradicts an earlier occurrence of the variable.
func setVariable(vars map[string]string, v variable, separator, raw string) bool {
	if separator != "" {
		raw = strings.ReplaceAll(raw, separator, ",")
	}
	value, err := url.PathUnescape(raw)
	if err != nil { // it has none: NormalizeURI has escaped each percent sign that begins no escape
		return false
	}
	if v.most > 0 && utf8.RuneCountInString(value) > v.most {
		return false
	}
	if whole, ok := vars[v.name]; ok {
		return prefix(whole, v.most) == value
	}
	vars[v.name] = value
	return true
}

// prefix returns the first characters of s, at most so many; 0 means all.
func prefix(s string, most int) string {
	if most == 0 {
		return s
	}
	for i := range s {
		if most--; most < 0 {
			return s[:i]
		}
	}
	return s
}
