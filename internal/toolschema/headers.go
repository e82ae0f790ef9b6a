package toolschema

import (
	"cmp"
	"errors"
	"fmt"
	"net/textproto"
	"slices"
	"strings"

	"github.com/troupe-run/troupe/codec"
)

// header is an argument that clients since 2026-07-28 repeat in a header, so that
// proxies between them and the server can route by it (server/tools, "x-mcp-header").
type header struct {
	key  string   // the header's name, canonical
	path []string // the path of the argument
}

// Headers are the arguments of a tool that clients repeat in headers, one for each header.
// It is nil for a tool without any.
type Headers []header

const (
	headerAnnotation = "x-mcp-header"
	headerPrefix     = "Mcp-Param-"
)

// addHeader adds the annotation of a schema, if it has one, where path is the chain of properties
// that leads to the schema. It fails if the annotation breaks the rules: clients must not
// show such a tool to their users.
func (hs *Headers) addHeader(schema map[string]any, path []string) error {
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
	h := header{textproto.CanonicalMIMEHeaderKey(headerPrefix + name), slices.Clone(path)}
	for _, other := range *hs {
		if other.key == h.key {
			return fmt.Errorf("%s %q: two properties have it", headerAnnotation, name)
		}
	}
	*hs = append(*hs, h)
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

// With adds an argument, at the end of a chain of properties, whose header has the name behind the prefix of all of them.
func (hs Headers) With(name string, path []string) Headers {
	return append(hs, header{textproto.CanonicalMIMEHeaderKey(headerPrefix + name), path})
}

func (hs Headers) sortHeaders() {
	slices.SortFunc(hs, func(a, b header) int { return cmp.Compare(a.key, b.key) })
}

// Check compares the headers of a call with its arguments, a valid JSON object or nil: a
// proxy that reads only the headers must see the same call as the server, which reads the
// body (basic/transports/streamable-http, "Server Behavior for Custom Headers"). The keys of
// sent are canonical, as in net/http. It allocates only if a value is encoded or does not
// fit, or if the argument is long and has escapes.
func (hs Headers) Check(sent map[string][]string, args []byte) error {
	for i := range hs {
		h := &hs[i]
		argument, err := h.findArgument(args)
		if err == nil {
			err = h.checkArgument(sent[h.key], argument)
		}
		if err != nil {
			return fmt.Errorf("the header %s %w: %s", h.key, err, strings.Join(h.path, "."))
		}
	}
	return nil
}

// The faults of a header; the argument's name follows.
var (
	errHeaderMissing   = errors.New("is missing, although the call has the argument")
	errHeaderAlone     = errors.New("is there, although the call lacks the argument")
	errHeaderTwice     = errors.New("is there more than once, for the argument")
	errHeaderMalformed = errors.New("has characters that no header may have, or is marked as base64 and is not, for the argument")
	errHeaderAmbiguous = errors.New("cannot be compared with an argument that comes twice, or lies in one that does")
	errHeaderDiffers   = errors.New("does not match the argument")
	errHeaderUnsafe    = errors.New("cannot carry integers beyond 2^53-1, as in the argument")
)

// findArgument returns the raw value that the header repeats, or nil if there is none. A header
// cannot carry objects and lists: the schema refuses them. A member on the way that comes twice
// is refused, because a proxy may read the one and the handler the other.
func (h *header) findArgument(args []byte) ([]byte, error) {
	value, once := args, true
	for _, name := range h.path {
		if value, once = codec.FieldOnce(value, name); !once {
			return nil, errHeaderAmbiguous
		}
	}
	if len(value) == 0 || value[0] == 'n' || value[0] == '{' || value[0] == '[' {
		return nil, nil
	}
	return value, nil
}

func (h *header) checkArgument(sent []string, argument []byte) error {
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
		if ok && !want.isSafe() {
			return errHeaderUnsafe
		}
		if got, valid := parseDecimal(text); !ok || !valid || got != want {
			return errHeaderDiffers
		}
	}
	return nil
}
