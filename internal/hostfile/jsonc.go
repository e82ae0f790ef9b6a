package hostfile

import (
	"bytes"
	"encoding/json"
	"errors"
	"io"
	"unicode/utf8"
)

// lineError is a mistake in a line, of which the file is not known yet.
type lineError struct {
	line int
	err  error
}

func (e *lineError) Error() string { return e.err.Error() }
func (e *lineError) Unwrap() error { return e.err }

// readJSON reads JSON with comments and with commas behind last items. A key that comes twice is two entries.
func readJSON(data []byte) (*node, error) {
	data = bytes.TrimPrefix(data, []byte("\xef\xbb\xbf"))
	if bytes.HasPrefix(data, []byte("\xff\xfe")) || bytes.HasPrefix(data, []byte("\xfe\xff")) {
		return nil, &lineError{1, errors.New("the file is UTF-16: save it as UTF-8")}
	}
	if at := invalidUTF8(data); at >= 0 {
		return nil, &lineError{1 + bytes.Count(data[:at], []byte("\n")), errors.New("this is not UTF-8")}
	}
	plain, err := plainJSON(data)
	if err != nil {
		return nil, err
	}
	d := json.NewDecoder(bytes.NewReader(plain))
	d.UseNumber()
	r := jsonReader{d: d, data: plain, line: 1}
	root, err := r.value(0)
	if err != nil {
		return nil, r.withLine(err)
	}
	if _, err := d.Token(); !errors.Is(err, io.EOF) {
		behind, _ := errors.AsType[*lineError](r.withLine(errors.New("there is something behind the end of the object")))
		return nil, behind
	}
	return root, nil
}

func invalidUTF8(data []byte) int {
	for i := 0; i < len(data); {
		r, size := utf8.DecodeRune(data[i:])
		if r == utf8.RuneError && size == 1 {
			return i
		}
		i += size
	}
	return -1
}

// plainJSON puts spaces in the place of comments, and of commas before a closing bracket, so that every other byte stays
// where it is. Line breaks of comments stay, too.
func plainJSON(data []byte) ([]byte, error) {
	plain := bytes.Clone(data)
	comma := -1     // the last comma behind a value, if only spaces and comments have come since
	last := byte(0) // what came last that is neither
	for i := 0; i < len(data); {
		switch c := data[i]; {
		case c == '"':
			comma, last = -1, c
			for i++; i < len(data) && data[i] != '"' && data[i] != '\n'; i++ {
				if data[i] == '\\' {
					i++
				}
			}
			i++ // behind the quote, or a line break, which json refuses
		case c == '/' && i+1 < len(data) && data[i+1] == '/':
			for ; i < len(data) && data[i] != '\n'; i++ {
				plain[i] = ' '
			}
		case c == '/' && i+1 < len(data) && data[i+1] == '*':
			end := bytes.Index(data[i+2:], []byte("*/"))
			if end < 0 {
				return nil, &lineError{1 + bytes.Count(data[:i], []byte("\n")), errors.New("a comment has no end")}
			}
			for stop := i + 2 + end + 2; i < stop; i++ {
				if data[i] != '\n' {
					plain[i] = ' '
				}
			}
		default:
			switch c {
			case ' ', '\t', '\r', '\n':
				i++
				continue
			case '}', ']':
				if comma >= 0 {
					plain[comma] = ' '
				}
			}
			comma = -1
			if c == ',' && last != '{' && last != '[' && last != ',' && last != ':' {
				comma = i
			}
			last = c
			i++
		}
	}
	return plain, nil
}

// jsonReader makes a tree of tokens.
type jsonReader struct {
	d    *json.Decoder
	data []byte
	read int // bytes of data whose lines are counted
	line int // of the last token
}

// next returns the next token, and counts the lines up to its end. No token has a line break in it.
func (r *jsonReader) next() (json.Token, error) {
	t, err := r.d.Token()
	r.countLines()
	return t, err
}

func (r *jsonReader) countLines() {
	to := min(int(r.d.InputOffset()), len(r.data))
	r.line += bytes.Count(r.data[r.read:to], []byte("\n"))
	r.read = to
}

// withLine gives an error of the decoder its line.
func (r *jsonReader) withLine(err error) error {
	if _, ok := errors.AsType[*lineError](err); ok {
		return err
	}
	// The decoder says where its last token ends. The mistake is in what comes behind it.
	to := int(r.d.InputOffset())
	for to < len(r.data) && bytes.IndexByte([]byte(" \t\r\n:,"), r.data[to]) >= 0 {
		to++
	}
	line := 1 + bytes.Count(r.data[:to], []byte("\n"))
	if errors.Is(err, io.EOF) || errors.Is(err, io.ErrUnexpectedEOF) || isEarlyEnd(err) {
		line, err = 1+bytes.Count(bytes.TrimRight(r.data, " \t\r\n"), []byte("\n")), errors.New("the file ends too early")
	}
	return &lineError{line, err}
}

// isEarlyEnd reports whether a decoder says so in the words that it has since Go 1.27.
func isEarlyEnd(err error) bool {
	syntax, ok := errors.AsType[*json.SyntaxError](err)
	return ok && syntax.Error() == "unexpected end of JSON input"
}

func (r *jsonReader) value(level int) (*node, error) {
	t, err := r.next()
	if err != nil {
		return nil, err
	}
	if level > mostLevels {
		return nil, &lineError{r.line, errTooDeep}
	}
	n := &node{line: r.line}
	switch t := t.(type) {
	case nil:
		n.kind = null
	case bool:
		n.kind, n.text = boolean, "false"
		if t {
			n.text = "true"
		}
	case json.Number:
		n.kind, n.text = number, t.String()
	case string:
		n.kind, n.text = text, t
	case json.Delim:
		if t == '[' {
			n.kind = list
			for r.d.More() {
				item, err := r.value(level + 1)
				if err != nil {
					return nil, err
				}
				n.items = append(n.items, item)
			}
		} else {
			n.kind = mapping
			for r.d.More() {
				key, err := r.next()
				if err != nil {
					return nil, err
				}
				e := entry{line: r.line}
				e.name, _ = key.(string) // the decoder gives no other key
				if e.value, err = r.value(level + 1); err != nil {
					return nil, err
				}
				n.entries = append(n.entries, e)
			}
		}
		if _, err := r.next(); err != nil { // the closing bracket
			return nil, err
		}
	}
	return n, nil
}
