package codec

import "github.com/troupe-run/troupe/internal/limits"

// Reasons of messages that are JSON and yet refused, code -32600.
const (
	reasonTop          = "the message must be an object or a batch"
	reasonVersion      = `the member jsonrpc must be "2.0"`
	reasonNoVersion    = "the member jsonrpc is missing"
	reasonID           = "the id must be a string or an integer"
	reasonMethod       = "the method must be a string"
	reasonParams       = "params must be an object"
	reasonError        = "the error must be an object with an integer code and a string message"
	reasonBoth         = "a message cannot have both a result and an error"
	reasonMixed        = "a message cannot have both a method and a result or an error"
	reasonNeither      = "a message needs a method, a result or an error"
	reasonNoID         = "a result needs an id"
	reasonToken        = "the progress token must be a string or an integer"
	reasonDuplicate    = "duplicate member in the message"
	reasonDupParam     = "duplicate member in params"
	reasonDupToken     = "duplicate progress token"
	reasonDupMeta      = "duplicate member in _meta"
	reasonBatchEmpty   = "the batch is empty"
	reasonBatchTooLong = "the batch has too many messages"
	reasonBatchNested  = "a batch cannot hold a batch"
	reasonValues       = "the message has too many values"
)

// scanner is a lexer that gathers the members of an envelope. It keeps the first fault of meaning and goes on checking
// the bytes, because a syntax error anywhere outranks it.
type scanner struct {
	lexer
	m       *Message
	wrong   string
	wrongAt int

	version, method        bool
	badID, dupID           bool
	errorCode, errorString bool
}

func (s *scanner) refuseMessage(reason string, off int) {
	if s.wrong == "" {
		s.wrong, s.wrongAt = reason, off
	}
}

// Scan classifies data in one pass and fills m. It validates every byte, so every span of m is strict JSON.
//
// The error is a *ScanError. Its code is -32700 if data is not one JSON value, and -32600 if it is no valid message.
// The envelope must have "jsonrpc": "2.0" and be a request, notification, result or error response. Ids and progress
// tokens are strings or integers (1.0 and 1e3 are not). params is an object if present. An error has an integer code
// and a string message, and only an error may lack an id. A batch is not empty, not over its limit, and not inside a
// batch. A wrong progress token is an invalid request, not invalid params, because Scan does not know methods.
//
// An optional member that is null counts as absent, because some clients write it so: params, an error beside a result
// and the other way round, and each member that Scan reads in params and _meta. So does an empty cursor. An id is never
// null.
//
// Keys are matched exactly, after unescaping. Unknown members are allowed. A member that Scan itself reads must not
// occur twice. Anywhere else, such as inside arguments, Scan allows duplicate keys; UniqueTree refuses them. The
// messages of a batch are checked to be JSON but not classified: scan each of Elements.
//
// After an error m.Kind is Invalid. With code -32600 m keeps what was read, the first of duplicate members, so that a
// caller can tell what the message was meant to be. With code -32700 m is zero.
func Scan(data []byte, m *Message, lim Limits) *ScanError {
	*m = Message{}
	s := scanner{lexer: lexer{data: data, max: lim.depth()}, m: m}
	i := skipSpace(data, 0)
	switch {
	case i >= len(data):
		i = s.failAt(reasonEmpty, i)
	case data[i] == '{':
		i = s.readEnvelope(i, 1)
	case data[i] == '[':
		i = s.readBatch(i, lim.batch())
	default:
		s.refuseMessage(reasonTop, i)
		i = s.checkValue(i, 0)
	}
	if i >= 0 {
		if i = skipSpace(data, i); i < len(data) {
			i = s.failAt(reasonTrailing, i)
		}
	}
	m.Values = s.values
	if s.values > lim.values() {
		s.refuseMessage(reasonValues, 0)
	}
	if i >= 0 && s.wrong == "" {
		return nil
	}
	e := &ScanError{Code: codeInvalid, Reason: s.wrong, Offset: s.wrongAt}
	if !s.badID && !s.dupID {
		e.ID = m.ID
	}
	m.Kind, m.N = Invalid, 0
	if i < 0 {
		e.Code, e.Reason, e.Offset = codeParse, s.reason, s.off
		*m = Message{}
	}
	return e
}

func (lim Limits) depth() int {
	return min(limits.MaxDepth.Or(lim.MaxDepth), maxDepth)
}

func (lim Limits) batch() int {
	return limits.MaxBatch.Or(lim.MaxBatch)
}

func (lim Limits) values() int {
	return limits.MaxValues.Or(lim.MaxValues)
}

// readMember reads a key at i, which may be the end of the object if first is set. It returns the key without quotes and
// the offset of its value, or a nil key and the offset after the object.
func (s *scanner) readMember(i int, first bool) (key []byte, next int) {
	b := s.data
	if i = skipSpace(b, i); i >= len(b) {
		return nil, s.failAt(reasonEnd, i)
	}
	if b[i] == '}' && first {
		return nil, i + 1
	}
	if b[i] != '"' {
		return nil, s.failAt(reasonKey, i)
	}
	start := i + 1
	if i = s.checkString(i); i < 0 {
		return nil, -1
	}
	key = b[start : i-1]
	if i = skipSpace(b, i); i >= len(b) {
		return nil, s.failAt(reasonEnd, i)
	}
	if b[i] != ':' {
		return nil, s.failAt(reasonColon, i)
	}
	if i = skipSpace(b, i+1); i >= len(b) {
		return nil, s.failAt(reasonEnd, i)
	}
	return key, i
}

// readMore reads what follows a member's value. At the end of the object more is false, and next is the offset after it.
func (s *scanner) readMore(i int) (next int, more bool) {
	b := s.data
	if i = skipSpace(b, i); i >= len(b) {
		return s.failAt(reasonEnd, i), false
	}
	switch b[i] {
	case ',':
		return i + 1, true
	case '}':
		return i + 1, false
	}
	return s.failAt(reasonComma, i), false
}

// place is an object whose members Scan reads.
type place uint8

const (
	inEnvelope place = iota
	inParams
	inMeta
	inError
)

// readObject validates the object at i, which is the depth-th container, and reads its members.
func (s *scanner) readObject(i, depth int, in place) int {
	if depth > s.max {
		return s.failAt(reasonDepth, i)
	}
	key, i := s.readMember(i+1, true)
	for key != nil {
		switch in {
		case inEnvelope:
			i = s.envelopeMember(key, i)
		case inParams:
			i = s.paramsMember(key, i)
		case inMeta:
			i = s.metaMember(key, i)
		case inError:
			i = s.errorMember(key, i)
		}
		if i < 0 {
			return -1
		}
		var more bool
		if i, more = s.readMore(i); !more {
			return i
		}
		key, i = s.readMember(i, false)
	}
	return i
}

// setMember keeps the first of duplicate members.
func (s *scanner) setMember(span *[]byte, at, end int, duplicate string) {
	if *span != nil {
		s.refuseMessage(duplicate, at)
		return
	}
	*span = s.data[at:end:end]
}
