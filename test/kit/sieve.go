package kit

import (
	"bytes"
	"strconv"
)

// sieve drops messages of what a NATS server sends on one connection, in the protocol that docs.nats.io describes. The zero value is ready.
type sieve struct {
	rest []byte // the beginning of an operation that has not come whole
	skip int    // bytes of a message that are dropped
	keep int    // and that pass
}

// passes returns what arrives of data. Messages whose subject is an inbox of the client library are never dropped.
func (s *sieve) passes(data []byte, drop *func() bool) (out []byte) {
	if drop == nil && len(s.rest) == 0 && s.skip == 0 && s.keep == 0 && bytes.HasSuffix(data, []byte("\r\n")) && !bytes.Contains(data, []byte("MSG ")) {
		return data
	}
	data = append(s.rest, data...)
	s.rest = nil
	for len(data) > 0 {
		if n := min(s.skip, len(data)); n > 0 {
			s.skip, data = s.skip-n, data[n:]
			continue
		}
		if n := min(s.keep, len(data)); n > 0 {
			out = append(out, data[:n]...)
			s.keep, data = s.keep-n, data[n:]
			continue
		}
		end := bytes.Index(data, []byte("\r\n"))
		if end < 0 {
			s.rest = append([]byte(nil), data...)
			break
		}
		op := bytes.Fields(data[:end])
		size := end + 2
		if len(op) >= 4 && (string(op[0]) == "MSG" || string(op[0]) == "HMSG") {
			n, _ := strconv.Atoi(string(op[len(op)-1]))
			if size += n + 2; drop != nil && !bytes.HasPrefix(op[1], []byte("_INBOX.")) && (*drop)() {
				s.skip = size
				continue
			}
		}
		s.keep = size
	}
	return out
}
