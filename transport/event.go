package transport

import (
	"bytes"
	"strconv"
	"strings"

	"github.com/troupe-run/troupe/codec"
)

// comment keeps a connection alive; parsers of event streams ignore it.
const comment = ":\n\n"

// appendEvent appends one server-sent event. A line break in data, which JSON has only as white space, begins another
// data line. An id that cannot be sent as one line is left out.
func appendEvent(dst []byte, id string, retryMS int, data []byte) []byte {
	data = escapeSeparators(data)
	if id != "" && !strings.ContainsAny(id, "\n\r\x00") {
		dst = append(dst, "id: "...)
		dst = append(dst, id...)
		dst = append(dst, '\n')
	}
	if retryMS > 0 {
		dst = append(dst, "retry: "...)
		dst = strconv.AppendInt(dst, int64(retryMS), 10)
		dst = append(dst, '\n')
	}
	for {
		dst = append(dst, "data:"...)
		line, rest, more := cutLine(data)
		if len(line) > 0 {
			dst = append(dst, ' ')
			dst = append(dst, line...)
		}
		dst = append(dst, '\n')
		if !more {
			return append(dst, '\n')
		}
		data = rest
	}
}

// appendLine appends data, which must be JSON, as one line. Data that is not JSON becomes one line too, so that the
// reader cannot take the rest of a message for another one.
func appendLine(dst, data []byte) []byte {
	data = escapeSeparators(data)
	if bytes.IndexByte(data, '\n') < 0 && bytes.IndexByte(data, '\r') < 0 {
		return append(dst, data...)
	}
	start := len(dst)
	dst = codec.AppendCompact(dst, data)
	for i, c := range dst[start:] {
		if c == '\n' || c == '\r' {
			dst[start+i] = ' '
		}
	}
	return dst
}

// isBlank reports whether data is empty or only JSON's white space.
func isBlank(data []byte) bool { return len(bytes.Trim(data, " \t\r\n")) == 0 }

// cutLine cuts data at the first of the three line ends that an event stream has.
func cutLine(data []byte) (line, rest []byte, more bool) {
	line = data
	end := bytes.IndexByte(data, '\n')
	if end >= 0 {
		line = data[:end]
	}
	if cr := bytes.IndexByte(line, '\r'); cr >= 0 {
		end = cr
	}
	if end < 0 {
		return data, nil, false
	}
	rest = data[end+1:]
	if data[end] == '\r' && len(rest) > 0 && rest[0] == '\n' {
		rest = rest[1:]
	}
	return data[:end], rest, true
}
