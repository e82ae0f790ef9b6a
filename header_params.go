package troupe

import (
	"cmp"
	"errors"
	"fmt"
	"net/textproto"
	"slices"
	"strings"

	"github.com/troupe-run/troupe/codec"
	"github.com/troupe-run/troupe/mcp"
)

// headerParam is an argument that clients since 2026-07-28 repeat in a header, so that
// what lies between them and the server can route by it (server/tools, "x-mcp-header").
type headerParam struct {
	key  string   // of the header, canonical
	path []string // of the argument
}

// headerParams are those of a tool, by header.
type headerParams []headerParam

const (
	headerAnnotation  = "x-mcp-header"
	headerParamPrefix = "Mcp-Param-"
)

// add takes the annotation of a schema that the chain of properties leads to, if it
// has one. A client must not show its user a tool whose annotations break these
// rules, so that the tool would not be there.
func (ps *headerParams) add(schema map[string]any, path []string) error {
	annotation, ok := schema[headerAnnotation]
	if !ok {
		return nil
	}
	name, ok := annotation.(string)
	if !ok || !isToken(name) {
		return fmt.Errorf("%s %v: want the name of a header, of letters, digits and !#$%%&'*+-.^_`|~", headerAnnotation, annotation)
	}
	if path == nil {
		return fmt.Errorf("%s %q: it may stand only in properties, and in properties of these", headerAnnotation, name)
	}
	switch schema["type"] {
	case "string", "integer", "boolean":
	default:
		return fmt.Errorf("%s %q: the property %s must be a string, an integer or a boolean", headerAnnotation, name, strings.Join(path, "."))
	}
	p := headerParam{textproto.CanonicalMIMEHeaderKey(headerParamPrefix + name), slices.Clone(path)}
	for _, other := range *ps {
		if strings.EqualFold(other.key, p.key) {
			return fmt.Errorf("%s %q: two properties have it", headerAnnotation, name)
		}
	}
	*ps = append(*ps, p)
	return nil
}

// isToken reports whether s is a token of HTTP (RFC 9110, section 5.6.2).
func isToken(s string) bool {
	for i := range len(s) {
		switch c := s[i]; {
		case 'a' <= c && c <= 'z', 'A' <= c && c <= 'Z', '0' <= c && c <= '9':
		case strings.IndexByte("!#$%&'*+-.^_`|~", c) >= 0:
		default:
			return false
		}
	}
	return s != ""
}

func (ps headerParams) sort() {
	slices.SortFunc(ps, func(a, b headerParam) int { return cmp.Compare(a.key, b.key) })
}

// check holds the headers of a call against its arguments, a JSON object: who reads
// only the headers must not be told another call than who reads the body
// (basic/transports/streamable-http, "Server Behavior for Custom Headers"). The keys of
// header are canonical, as net/http has them. It allocates nothing unless a value has
// escapes, is encoded, or does not fit.
func (ps headerParams) check(header map[string][]string, args []byte) *mcp.Error {
	for i := range ps {
		p := &ps[i]
		if err := p.check(header[p.key], p.argument(args)); err != nil {
			return mcp.Errorf(mcp.CodeHeaderMismatch, "the header %s %s: %s", p.key, err, strings.Join(p.path, "."))
		}
	}
	return nil
}

// checkHeaders holds what the headers of a request say of its arguments against them.
// A request that is sent again with answers is held to them like the first.
func (s *service) checkHeaders(m *codec.Message, header map[string][]string) *mcp.Error {
	if string(m.Method) != mcp.MethodToolsCall {
		return nil
	}
	name, ok := plain(m.Name)
	if !ok {
		name = []byte(text(m.Name))
	}
	t, ok := s.srv.tools.find(name)
	if !ok {
		return nil
	}
	return t.headers.check(header, m.Arguments)
}

// What is wrong with a header; the argument's name follows.
var (
	errHeaderMissing   = errors.New("is missing, although there is the argument")
	errHeaderAlone     = errors.New("is there, although there is no argument")
	errHeaderTwice     = errors.New("is there more than once, for the argument")
	errHeaderMalformed = errors.New("has characters that no header may have, or says that it is base64 and is not, for the argument")
	errHeaderDiffers   = errors.New("does not match the argument")
	errHeaderUnsafe    = errors.New("cannot carry integers beyond 2^53-1, as in the argument")
)

// argument is the raw value that the header repeats, nil for none. Objects and lists
// have no form in a header: that they do not fit is for the schema to say.
func (p *headerParam) argument(args []byte) []byte {
	value := args
	for _, name := range p.path {
		value = codec.Field(value, name)
	}
	if len(value) == 0 || value[0] == 'n' || value[0] == '{' || value[0] == '[' {
		return nil
	}
	return value
}

func (p *headerParam) check(sent []string, argument []byte) error {
	switch {
	case argument == nil && len(sent) == 0:
		return nil
	case argument == nil:
		return errHeaderAlone
	case len(sent) == 0:
		return errHeaderMissing
	case len(sent) > 1:
		return errHeaderTwice
	}
	text, ok := codec.DecodeHeader(sent[0])
	if !ok {
		return errHeaderMalformed
	}
	switch argument[0] {
	case '"':
		if !codec.SameString(argument, text) {
			return errHeaderDiffers
		}
	case 't', 'f':
		if string(argument) != text {
			return errHeaderDiffers
		}
	default:
		want, ok := parseDecimal(argument)
		if ok && !want.safe() {
			return errHeaderUnsafe
		}
		if got, valid := parseDecimal(text); !ok || !valid || got != want {
			return errHeaderDiffers
		}
	}
	return nil
}
