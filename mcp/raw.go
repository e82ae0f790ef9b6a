package mcp

import (
	"bytes"
	"encoding/base64"
	"encoding/json"
	"errors"
	"fmt"
)

// ErrMalformed is wrapped by every error of this package for bytes that do not have the
// shape that the protocol requires. Nothing was decoded; the caller answers with
// [CodeInvalidParams] or drops the message.
var ErrMalformed = errors.New("malformed")

// RequestID is the id of a request as its JSON token: a string with its quotes or
// a number. The zero value is no id. Ids are equal only when their bytes are, so
// 1 and "1" differ, and an integer beyond 2^53 survives.
type RequestID []byte

// ProgressToken is a progress token as its JSON token, a string or a number. The
// zero value is no token; 0 and "" are tokens.
type ProgressToken []byte

// String returns the JSON token, quotes included.
func (id RequestID) String() string { return string(id) }

// MarshalJSON returns the token. It fails if there is none, since null is no id.
func (id RequestID) MarshalJSON() ([]byte, error) { return encodeToken(id, "request id") }

// UnmarshalJSON copies the token and refuses everything but a string or a number.
func (id *RequestID) UnmarshalJSON(data []byte) error {
	token, err := decodeToken(data, "request id")
	if err != nil {
		return err
	}
	*id = token
	return nil
}

// String returns the JSON token, quotes included.
func (t ProgressToken) String() string { return string(t) }

// MarshalJSON returns the token. It fails if there is none, since null is no token.
func (t ProgressToken) MarshalJSON() ([]byte, error) { return encodeToken(t, "progress token") }

// UnmarshalJSON copies the token and refuses everything but a string or a number.
func (t *ProgressToken) UnmarshalJSON(data []byte) error {
	token, err := decodeToken(data, "progress token")
	if err != nil {
		return err
	}
	*t = token
	return nil
}

func encodeToken(token []byte, what string) ([]byte, error) {
	if len(token) == 0 {
		return nil, fmt.Errorf("mcp: encode %s: %w: it is empty", what, ErrMalformed)
	}
	return token, nil
}

func decodeToken(data []byte, what string) ([]byte, error) {
	data = bytes.TrimSpace(data)
	if len(data) == 0 || data[0] != '"' && data[0] != '-' && (data[0] < '0' || data[0] > '9') || !json.Valid(data) {
		return nil, fmt.Errorf("mcp: decode %s: %w: neither a string nor a number", what, ErrMalformed)
	}
	return bytes.Clone(data), nil
}

// Object is a JSON object kept as its bytes. The zero value encodes as {}, so
// that &Object{} declares a capability that has no settings.
type Object []byte

// Declared returns an empty object: the presence of a capability.
func Declared() *Object { return &Object{} }

// Get returns the raw value of a member. The slice points into the object.
func (o Object) Get(key string) (json.RawMessage, bool) { return member(o, key) }

// With returns a copy of o in which key has the given raw value. The other members keep
// their bytes and their order; an existing key is replaced in its place. The value must
// be valid JSON.
func (o Object) With(key string, value json.RawMessage) Object {
	out := make(Object, 0, len(o)+len(key)+len(value)+len(`{"":,}`))
	out = append(out, '{')
	add := func(k, v []byte) {
		if len(out) > 1 {
			out = append(out, ',')
		}
		out = append(append(append(out, k...), ':'), v...)
	}
	found := false
	for it := newMembers(o); it.next(); {
		if !it.is(key) {
			add(it.rawKey, it.value)
		} else if !found {
			add(it.rawKey, value)
			found = true
		}
	}
	if !found {
		add(quote(key), value)
	}
	return append(out, '}')
}

// MarshalJSON returns the bytes, or {} for none.
func (o Object) MarshalJSON() ([]byte, error) {
	if len(o) == 0 {
		return []byte("{}"), nil
	}
	return o, nil
}

// UnmarshalJSON copies the bytes and refuses everything but an object.
func (o *Object) UnmarshalJSON(data []byte) error {
	raw, err := decodeObjectBytes(data)
	if err != nil {
		return err
	}
	*o = raw
	return nil
}

// Base64 is binary data as base64 text, as in JSON. It is kept as text so that a payload
// that passes through is neither decoded nor changed.
type Base64 string

// EncodeBase64 returns data in standard base64 with padding.
func EncodeBase64(data []byte) Base64 { return Base64(base64.StdEncoding.EncodeToString(data)) }

// Bytes decodes the text. The error wraps [ErrMalformed].
func (b Base64) Bytes() ([]byte, error) {
	data, err := base64.StdEncoding.DecodeString(string(b))
	if err != nil {
		return nil, fmt.Errorf("mcp: decode base64: %w: %w", ErrMalformed, err)
	}
	return data, nil
}

func decodeObjectBytes(data []byte) ([]byte, error) {
	data = bytes.TrimSpace(data)
	if len(data) == 0 || data[0] != '{' || !json.Valid(data) {
		return nil, fmt.Errorf("mcp: decode object: %w: not an object", ErrMalformed)
	}
	return bytes.Clone(data), nil
}

func isNull(data []byte) bool { return string(bytes.TrimSpace(data)) == "null" }

// encode is json.Marshal without HTML escaping, which would change bytes that this
// package promises to keep.
func encode(v any) ([]byte, error) {
	var buf bytes.Buffer
	enc := json.NewEncoder(&buf)
	enc.SetEscapeHTML(false)
	if err := enc.Encode(v); err != nil {
		return nil, err
	}
	return bytes.TrimSuffix(buf.Bytes(), []byte("\n")), nil
}

// quote returns s as a JSON string. Encoding a string cannot fail.
func quote(s string) []byte {
	data, _ := encode(s)
	return data
}
