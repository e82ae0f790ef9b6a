package upstream

import (
	"bytes"
	"encoding/base64"
	"fmt"
	"net/http"
	"slices"
	"strings"

	"github.com/troupe-run/troupe/codec"
)

// encodeHeader writes text as the value of Mcp-Name or Mcp-Param-*: as it is, or in base64 between
// marks where a proxy might change it, or it looks like that (2026-07-28, streamable HTTP, value
// encoding). [codec.DecodeHeader] reads it.
func encodeHeader(text string) string {
	plain := text == strings.Trim(text, " \t") && !(strings.HasPrefix(text, "=?base64?") && strings.HasSuffix(text, "?="))
	for i := 0; i < len(text) && plain; i++ {
		plain = text[i] == '\t' || ' ' <= text[i] && text[i] <= '~'
	}
	if plain {
		return text
	}
	return "=?base64?" + base64.StdEncoding.EncodeToString([]byte(text)) + "?="
}

// A Param is an argument of a tool that a header repeats.
type Param struct {
	Header string   // after Mcp-Param-
	Path   []string // the names of the members that lead to it
}

// mostParams bounds the headers of a tool, and how deep they may lie.
const mostParams = 64

// HeaderParams returns the arguments that headers repeat, by the input schema of a tool, which must be valid JSON. The error says
// which annotation breaks the rules: such a tool may not be used over HTTP (2026-07-28, streamable HTTP, schema
// extension).
func HeaderParams(inputSchema []byte) ([]Param, error) {
	if !bytes.Contains(inputSchema, []byte("x-mcp-header")) && bytes.IndexByte(inputSchema, '\\') < 0 {
		return nil, nil
	}
	r := paramReader{}
	if err := r.readSchema(inputSchema, true); err != nil {
		return nil, err
	}
	return r.all, nil
}

// A paramReader gathers the annotations of a schema.
type paramReader struct {
	all  []Param
	path []string
}

// readSchema reads the schema of a value. Where none may be, because the schema cannot be reached by properties alone, an annotation
// is an error.
func (r *paramReader) readSchema(schema []byte, reachable bool) error {
	if len(r.path) > mostParams {
		return nil // too deep for a header; arguments that deep have none
	}
	if raw := codec.Field(schema, "x-mcp-header"); raw != nil {
		if err := r.add(raw, codec.Field(schema, "type"), reachable); err != nil {
			return err
		}
	}
	for key, value := range codec.Members(schema) {
		if !sameKey(key, "properties") {
			if err := r.readOther(key, value); err != nil {
				return err
			}
			continue
		}
		for name, property := range codec.Members(value) {
			text, _ := codec.Str(append(append([]byte{'"'}, name...), '"'))
			r.path = append(r.path, text)
			err := r.readSchema(property, reachable)
			r.path = r.path[:len(r.path)-1]
			if err != nil {
				return err
			}
		}
	}
	return nil
}

// readOther looks for annotations below a keyword that holds schemas but is not properties.
func (r *paramReader) readOther(key, value []byte) error {
	switch string(key) {
	case "items", "additionalProperties", "contains", "not", "if", "then", "else", "unevaluatedItems", "unevaluatedProperties", "propertyNames":
		return r.readBelow(value)
	case "oneOf", "anyOf", "allOf", "prefixItems":
		for one := range codec.Elements(value) {
			if err := r.readBelow(one); err != nil {
				return err
			}
		}
	case "$defs", "definitions", "patternProperties", "dependentSchemas":
		for _, one := range codec.Members(value) {
			if err := r.readBelow(one); err != nil {
				return err
			}
		}
	}
	return nil
}

func (r *paramReader) readBelow(schema []byte) error {
	if !bytes.Contains(schema, []byte("x-mcp-header")) {
		return nil
	}
	r.path = append(r.path, "")
	defer func() { r.path = r.path[:len(r.path)-1] }()
	return r.readSchema(schema, false)
}

func (r *paramReader) add(raw, kind []byte, reachable bool) error {
	name, ok := codec.Str(raw)
	switch {
	case !ok || !isFieldName(name):
		return fmt.Errorf("x-mcp-header is %s, which is no name of a header", excerptOf(raw))
	case !reachable || len(r.path) == 0:
		return fmt.Errorf("the header %s is not for an argument that properties alone lead to", name)
	case !codec.SameString(kind, "string") && !codec.SameString(kind, "integer") && !codec.SameString(kind, "boolean"):
		return fmt.Errorf("the header %s is for an argument that is no string, integer or boolean", name)
	case slices.ContainsFunc(r.all, func(p Param) bool { return strings.EqualFold(p.Header, name) }):
		return fmt.Errorf("the header %s is for two arguments", name)
	case len(r.all) >= mostParams:
		return fmt.Errorf("more than %d arguments have headers", mostParams)
	}
	r.all = append(r.all, Param{Header: name, Path: slices.Clone(r.path)})
	return nil
}

// ParamHeaders returns the headers that repeat arguments, which must be valid JSON or nil: nil if there are none. An argument
// that is absent, null, an object or an array has no header.
func ParamHeaders(params []Param, arguments []byte) http.Header {
	var all http.Header
	for _, p := range params {
		value := arguments
		for _, name := range p.Path {
			value = codec.Field(value, name)
		}
		if len(value) == 0 || strings.IndexByte("n{[", value[0]) >= 0 {
			continue
		}
		text := string(value)
		if value[0] == '"' {
			text, _ = codec.Str(value)
		}
		if all == nil {
			all = http.Header{}
		}
		all.Set("Mcp-Param-"+p.Header, encodeHeader(text))
	}
	return all
}

// isFieldName reports whether s may be a part of a header's name.
func isFieldName(s string) bool {
	if s == "" || len(s) > MostToken {
		return false
	}
	for i := range len(s) {
		switch c := s[i]; {
		case 'a' <= c && c <= 'z', 'A' <= c && c <= 'Z', '0' <= c && c <= '9':
		case strings.IndexByte("!#$%&'*+-.^_`|~", c) >= 0:
		default:
			return false
		}
	}
	return true
}
