package auth

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"log/slog"
	"math"
	"strings"
	"time"
	"unicode/utf8"
)

// object is a JSON object of which no member comes twice, at any depth: readers that disagree on which of two counts could be played off against each
// other (RFC 7515, 4; RFC 7519, 4). Names are compared exactly.
type object map[string]json.RawMessage

// maxDepth is how deep objects and arrays may lie in each other.
const maxDepth = 16

var (
	errNotUTF8 = errors.New("it is not UTF-8")
	errDeep    = fmt.Errorf("it is nested more than %d deep", maxDepth)
)

// readObject reads a JSON object with nothing after it.
func readObject(data []byte) (object, error) {
	if !utf8.Valid(data) {
		return nil, errNotUTF8
	}
	d := json.NewDecoder(bytes.NewReader(data))
	d.UseNumber() // or a large number would be an error here that is none in a claim that nobody reads
	if err := checkMembers(d, maxDepth); err != nil {
		return nil, err
	}
	var o object
	if err := json.Unmarshal(data, &o); err != nil {
		return nil, err
	}
	if o == nil {
		return nil, errors.New("it is no object")
	}
	return o, nil
}

// checkMembers reads a value, and refuses members that come twice. depth is how many levels it may have.
func checkMembers(d *json.Decoder, depth int) error {
	t, err := d.Token()
	if err != nil {
		return err
	}
	open, nested := t.(json.Delim)
	if !nested {
		return nil
	}
	if depth == 0 {
		return errDeep
	}
	seen := make(map[string]bool)
	for d.More() {
		if open == '{' {
			name, err := d.Token()
			if err != nil {
				return err
			}
			text, _ := name.(string)
			if seen[text] {
				return fmt.Errorf("a member comes twice: %.64q", text)
			}
			seen[text] = true
		}
		if err := checkMembers(d, depth-1); err != nil {
			return err
		}
	}
	_, err = d.Token()
	return err
}

// has reports whether a member is there and not null.
func (o object) has(name string) bool {
	raw, ok := o[name]
	return ok && string(raw) != "null"
}

// wrongTypeError names a member whose value is not what it must be.
type wrongTypeError string

func (e wrongTypeError) Error() string { return string(e) + " has another type, or is out of bounds" }

// text returns a member that must be a string. ok is whether it is there.
func (o object) text(name string) (s string, ok bool, err error) {
	raw, ok := o[name]
	if !ok {
		return "", false, nil
	}
	if s, ok = readText(raw); !ok {
		return "", true, wrongTypeError(name)
	}
	return s, true, nil
}

// readText reads a string. One with half a surrogate is refused, since encoding/json makes it equal to others.
func readText(raw json.RawMessage) (s string, ok bool) {
	if len(raw) == 0 || raw[0] != '"' || json.Unmarshal(raw, &s) != nil || strings.ContainsRune(s, utf8.RuneError) {
		return "", false
	}
	return s, true
}

// list returns a member that must be a string or an array of strings.
func (o object) list(name string) (all []string, ok bool, err error) {
	raw, ok := o[name]
	if !ok {
		return nil, false, nil
	}
	if s, isText := readText(raw); isText {
		return []string{s}, true, nil
	}
	var elements []json.RawMessage
	if string(raw) == "null" || json.Unmarshal(raw, &elements) != nil {
		return nil, true, wrongTypeError(name)
	}
	for _, e := range elements {
		s, isText := readText(e)
		if !isText {
			return nil, true, wrongTypeError(name)
		}
		all = append(all, s)
	}
	return all, true, nil
}

// lastSecond is the end of the year 9999.
const lastSecond = 253402300799

// time returns a member that must be a NumericDate (RFC 7519, 2) from 1970 to 9999: a number, not a string.
func (o object) time(name string) (at time.Time, ok bool, err error) {
	raw, ok := o[name]
	if !ok {
		return time.Time{}, false, nil
	}
	var seconds float64
	if string(raw) == "null" || json.Unmarshal(raw, &seconds) != nil || seconds < 0 || seconds > lastSecond {
		return time.Time{}, true, wrongTypeError(name)
	}
	whole, part := math.Modf(seconds)
	return time.Unix(int64(whole), int64(part*1e9)), true, nil
}

// subset returns an object of the members with these names, nil if there is none.
func (o object) subset(names []string) json.RawMessage {
	some := make(object)
	for _, name := range names {
		if raw, ok := o[name]; ok {
			some[name] = raw
		}
	}
	if len(some) == 0 {
		return nil
	}
	data, _ := json.Marshal(some) // of members that were read has no error
	return data
}

// shownBytes bounds what a log gets of a member.
const shownBytes = 256

// shown returns members for a log, as they stand in the object.
func (o object) shown(names ...string) (attrs []slog.Attr) {
	for _, name := range names {
		if raw, ok := o[name]; ok {
			attrs = append(attrs, slog.String(name, shortenText(string(raw))))
		}
	}
	return attrs
}

func shortenText(s string) string {
	if len(s) <= shownBytes {
		return s
	}
	return strings.ToValidUTF8(s[:shownBytes], "") + "…"
}
