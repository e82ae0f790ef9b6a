package skill

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"regexp"
	"strconv"
	"strings"
	"unicode/utf8"

	"github.com/goccy/go-yaml/ast"
	"github.com/goccy/go-yaml/lexer"
	"github.com/goccy/go-yaml/parser"
	"github.com/goccy/go-yaml/token"

	"github.com/troupe-run/troupe/internal/limits"
)

// frontmatterOf returns what stands between the two lines of dashes with which a SKILL.md begins.
func frontmatterOf(text []byte) ([]byte, error) {
	if bytes.HasPrefix(text, []byte("\ufeff")) { // hosts that look for the dashes do not find them behind one
		return nil, errors.New("it begins with a byte order mark: save it as UTF-8 without one")
	}
	first, rest, ok := bytes.Cut(text, []byte("\n"))
	if !ok || string(bytes.TrimSuffix(first, []byte("\r"))) != "---" {
		return nil, errors.New("it does not begin with a line of three dashes, and so has no frontmatter")
	}
	for at := 0; at < len(rest); {
		line, _, more := bytes.Cut(rest[at:], []byte("\n"))
		if string(bytes.TrimRight(line, " \t\r")) == "---" {
			return rest[:at], nil
		}
		if !more {
			break
		}
		at += len(line) + 1
	}
	return nil, errors.New("its frontmatter does not end with a line of three dashes")
}

// toJSON returns a YAML mapping as a JSON object, its members in their order. Plain scalars have the types of the core schema of
// YAML 1.2, as hosts read them: the library's own types are those of YAML 1.1 in part, where 010 is eight and 1_000 a number. What
// JSON has not, it refuses: aliases, tags, merge keys, infinities, keys that are no strings.
func toJSON(text []byte) (json.RawMessage, error) {
	tokens := lexer.Tokenize(string(text))
	if err := checkTokens(tokens); err != nil {
		return nil, err
	}
	file, err := parser.Parse(tokens, 0)
	if err != nil {
		return nil, errors.New(firstLine(err.Error()))
	}
	if len(file.Docs) != 1 || file.Docs[0].Body == nil {
		return nil, errors.New("it is empty, or more than one document")
	}
	switch file.Docs[0].Body.(type) {
	case *ast.MappingNode, *ast.MappingValueNode:
	default:
		return nil, errors.New("it is no mapping of names to values")
	}
	return appendNode(nil, file.Docs[0].Body, limits.SkillLevels.Value())
}

// checkTokens refuses what the parser would take seconds for, at the square of its length: levels within one line, and a row of
// anchors, aliases or tags, which JSON has not. Levels by indentation need a line each, longer and longer.
func checkTokens(tokens token.Tokens) error {
	most := limits.SkillLevels.Value()
	brackets, inLine, line := 0, 0, 0
	for _, t := range tokens {
		if t.Position.Line != line {
			inLine, line = 0, t.Position.Line
		}
		switch t.Type {
		case token.AnchorType, token.AliasType:
			return fmt.Errorf("line %d has an anchor or an alias, which JSON has not", line)
		case token.TagType:
			return fmt.Errorf("line %d has a tag, which JSON has not", line)
		case token.SequenceStartType, token.MappingStartType:
			brackets++
		case token.SequenceEndType, token.MappingEndType:
			brackets--
		case token.CollectEntryType:
			inLine = 0
		case token.SequenceEntryType, token.MappingKeyType, token.MappingValueType:
			inLine++
		}
		if brackets > most || inLine > most {
			return tooDeep(line)
		}
	}
	return nil
}

// firstLine leaves out the picture of the text that the library's errors end with.
func firstLine(s string) string {
	line, _, _ := strings.Cut(s, "\n")
	return line
}

// appendNode appends a value that may have collections in one another up to a number of levels.
func appendNode(dst []byte, n ast.Node, levels int) ([]byte, error) {
	switch n := n.(type) {
	case *ast.MappingNode:
		return appendMapping(dst, n, n.Values, levels)
	case *ast.MappingValueNode:
		return appendMapping(dst, n, []*ast.MappingValueNode{n}, levels)
	case *ast.SequenceNode:
		if levels--; levels < 0 {
			return nil, tooDeep(n.GetToken().Position.Line)
		}
		dst = append(dst, '[')
		for i, value := range n.Values {
			if i > 0 {
				dst = append(dst, ',')
			}
			var err error
			if dst, err = appendNode(dst, value, levels); err != nil {
				return nil, err
			}
		}
		return append(dst, ']'), nil
	case *ast.LiteralNode:
		return appendString(dst, n.Value.Value), nil
	case *ast.StringNode:
		if t := n.Token.Type; t == token.SingleQuoteType || t == token.DoubleQuoteType {
			return appendString(dst, n.Value), nil
		}
		return appendUnquoted(dst, n, n.Value)
	case *ast.NullNode:
		return append(dst, "null"...), nil
	case *ast.BoolNode, *ast.IntegerNode, *ast.FloatNode, *ast.InfinityNode, *ast.NanNode:
		return appendUnquoted(dst, n, strings.TrimSpace(n.GetToken().Origin))
	case nil:
		return append(dst, "null"...), nil
	}
	return nil, fmt.Errorf("line %d has a %s, which JSON has not", n.GetToken().Position.Line, n.Type().YAMLName())
}

func tooDeep(line int) error {
	return fmt.Errorf("line %d has more than %d levels, which hosts need not compare", line, limits.SkillLevels.Value())
}

func appendMapping(dst []byte, n ast.Node, values []*ast.MappingValueNode, levels int) ([]byte, error) {
	if levels--; levels < 0 {
		return nil, tooDeep(n.GetToken().Position.Line)
	}
	seen := make(map[string]bool, len(values))
	dst = append(dst, '{')
	for i, value := range values {
		if i > 0 {
			dst = append(dst, ',')
		}
		name, err := appendNode(nil, value.Key, levels)
		if err != nil {
			return nil, err
		}
		line := value.Key.GetToken().Position.Line
		switch {
		case value.Key.IsMergeKey() || name[0] != '"':
			return nil, fmt.Errorf("line %d has a name that is no string", line)
		case seen[string(name)]:
			return nil, fmt.Errorf("line %d has the name %s a second time", line, name)
		}
		seen[string(name)] = true
		dst = append(append(dst, name...), ':')
		if dst, err = appendNode(dst, value.Value, levels); err != nil {
			return nil, err
		}
	}
	return append(dst, '}'), nil
}

// The numbers of the core schema (YAML 1.2.2, section 10.3.2).
var (
	decimal     = regexp.MustCompile(`^[-+]?[0-9]+$`)
	octal       = regexp.MustCompile(`^0o[0-7]+$`)
	hexadecimal = regexp.MustCompile(`^0x[0-9a-fA-F]+$`)
	float       = regexp.MustCompile(`^[-+]?(\.[0-9]+|[0-9]+(\.[0-9]*)?)([eE][-+]?[0-9]+)?$`)
	endless     = regexp.MustCompile(`^([-+]?\.(inf|Inf|INF)|\.(nan|NaN|NAN))$`)
)

// appendUnquoted appends a scalar without quotes. The library leaves tabs out of its text, where hosts have them, and what a host
// reads must be what the entry says: so there may be none but around it.
func appendUnquoted(dst []byte, n ast.Node, s string) ([]byte, error) {
	if t := n.GetToken(); strings.Contains(strings.TrimSpace(t.Origin), "\t") {
		return nil, fmt.Errorf("line %d has a tab in text without quotes: put quotes around the text", t.Position.Line)
	}
	return appendPlain(dst, s)
}

// appendPlain appends a scalar that is not quoted, by its text.
func appendPlain(dst []byte, s string) ([]byte, error) {
	switch s {
	case "", "~", "null", "Null", "NULL":
		return append(dst, "null"...), nil
	case "true", "True", "TRUE":
		return append(dst, "true"...), nil
	case "false", "False", "FALSE":
		return append(dst, "false"...), nil
	}
	switch {
	case decimal.MatchString(s):
		return appendDigits(dst, s), nil
	case octal.MatchString(s), hexadecimal.MatchString(s):
		n, err := strconv.ParseUint(s, 0, 64)
		if err != nil {
			return nil, fmt.Errorf("the number %s is too large", s)
		}
		return strconv.AppendUint(dst, n, 10), nil
	case float.MatchString(s):
		f, err := strconv.ParseFloat(s, 64)
		if err != nil {
			return nil, fmt.Errorf("the number %s is too large", s)
		}
		number, err := json.Marshal(f)
		return append(dst, number...), err
	case endless.MatchString(s):
		return nil, fmt.Errorf("%s is no number that JSON has", s)
	}
	return appendString(dst, s), nil
}

// appendDigits appends a whole number as JSON writes it: without a plus and without zeros in front.
func appendDigits(dst []byte, s string) []byte {
	s, negative := strings.CutPrefix(strings.TrimPrefix(s, "+"), "-")
	s = strings.TrimLeft(s, "0")
	if s == "" {
		return append(dst, '0')
	}
	if negative {
		dst = append(dst, '-')
	}
	return append(dst, s...)
}

func appendString(dst []byte, s string) []byte {
	var out bytes.Buffer
	e := json.NewEncoder(&out)
	e.SetEscapeHTML(false)
	if err := e.Encode(s); err != nil { // a string always encodes
		panic("skill: " + err.Error())
	}
	return append(dst, bytes.TrimSuffix(out.Bytes(), []byte("\n"))...)
}

var skillName = regexp.MustCompile(`^[a-z0-9]+(-[a-z0-9]+)*$`)

// The bounds of the Agent Skills specification.
const (
	maxName        = 64
	maxDescription = 1024
)

// check returns the name and the description of a frontmatter, or what is wrong with them. It takes members by their very names:
// a struct would take Name for name, too, and hosts do not.
func check(frontmatter json.RawMessage) (name, description string, err error) {
	var members map[string]any
	if err := json.Unmarshal(frontmatter, &members); err != nil {
		return "", "", err
	}
	name, _ = members["name"].(string)
	if len(name) > maxName || !skillName.MatchString(name) {
		return "", "", fmt.Errorf("its name must be 1 to %d of a-z, 0-9 and single hyphens within", maxName)
	}
	description, _ = members["description"].(string)
	if n := utf8.RuneCountInString(description); strings.TrimSpace(description) == "" || n > maxDescription {
		return "", "", fmt.Errorf("its description must be a string of 1 to %d characters", maxDescription)
	}
	return name, description, nil
}
