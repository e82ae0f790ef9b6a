package codec

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

// readEnvelope reads the message at i, whose object is the depth-th container, and classifies it.
func (s *scanner) readEnvelope(i, depth int) int {
	start := i
	if i = s.readObject(i, depth, inEnvelope); i < 0 {
		return -1
	}
	m := s.m
	if (s.method || m.Err != nil) && isNull(m.Result) {
		m.Result = nil
	}
	switch answer := m.Result != nil || m.Err != nil; {
	case !s.version:
		s.refuseMessage(reasonNoVersion, start)
	case s.method && answer:
		s.refuseMessage(reasonMixed, start)
	case m.Result != nil && m.Err != nil:
		s.refuseMessage(reasonBoth, start)
	case s.method && m.ID != nil:
		m.Kind = Request
	case s.method:
		m.Kind = Notification
	case m.Err != nil:
		m.Kind = ErrorResponse
	case m.Result != nil && m.ID != nil:
		m.Kind = Result
	case m.Result != nil:
		s.refuseMessage(reasonNoID, start)
	default:
		s.refuseMessage(reasonNeither, start)
	}
	return i
}

func (s *scanner) envelopeMember(key []byte, at int) (end int) {
	m := s.m
	switch findName(key) {
	case nameJSONRPC:
		if end = s.checkValue(at, 1); end < 0 {
			return -1
		}
		if s.version {
			s.refuseMessage(reasonDuplicate, at)
		}
		s.version = true
		if raw := s.data[at:end]; string(raw) != `"2.0"` && !SameString(raw, "2.0") {
			s.refuseMessage(reasonVersion, at)
		}
	case nameID:
		if end = s.checkValue(at, 1); end < 0 {
			return -1
		}
		s.dupID = s.dupID || m.ID != nil
		s.setMember(&m.ID, at, end, reasonDuplicate)
		if raw := s.data[at:end]; !isString(raw) && !isInteger(raw) {
			s.badID = true
			s.refuseMessage(reasonID, at)
		}
	case nameMethod:
		if end = s.checkValue(at, 1); end < 0 {
			return -1
		}
		if s.method {
			s.refuseMessage(reasonDuplicate, at)
			break
		}
		s.method = true
		raw := s.data[at:end:end]
		if !isString(raw) {
			s.refuseMessage(reasonMethod, at)
			break
		}
		m.Method = raw[1 : len(raw)-1 : len(raw)-1]
		if hasEscapes(m.Method) {
			m.Method = appendUnescaped(make([]byte, 0, len(m.Method)), m.Method)
		}
	case nameParams:
		if s.data[at] == 'n' {
			return s.checkValue(at, 1)
		}
		if s.data[at] != '{' {
			s.refuseMessage(reasonParams, at)
			end = s.checkValue(at, 1)
		} else if m.Params != nil {
			end = s.checkValue(at, 1)
		} else {
			end = s.readObject(at, 2, inParams)
		}
		if end >= 0 {
			s.setMember(&m.Params, at, end, reasonDuplicate)
		}
	case nameResult:
		if end = s.checkValue(at, 1); end >= 0 {
			s.setMember(&m.Result, at, end, reasonDuplicate)
		}
	case nameError:
		if s.data[at] == 'n' {
			return s.checkValue(at, 1)
		}
		if s.data[at] != '{' {
			s.refuseMessage(reasonError, at)
			end = s.checkValue(at, 1)
		} else if end = s.readObject(at, 2, inError); end >= 0 && !(s.errorCode && s.errorString) {
			s.refuseMessage(reasonError, at)
		}
		if end >= 0 {
			s.setMember(&m.Err, at, end, reasonDuplicate)
		}
	default:
		end = s.checkValue(at, 1)
	}
	return end
}

func (s *scanner) paramsMember(key []byte, at int) (end int) {
	m := s.m
	var span *[]byte
	found := findName(key)
	if found != nameOther && s.data[at] == 'n' {
		return s.checkValue(at, 2)
	}
	switch found {
	case nameMeta:
		if s.data[at] == '{' && m.Meta == nil {
			end = s.readObject(at, 3, inMeta)
		} else {
			end = s.checkValue(at, 2)
		}
		if end >= 0 {
			s.setMember(&m.Meta, at, end, reasonDupParam)
		}
		return end
	case nameName:
		span = &m.Name
	case nameURI:
		span = &m.URI
	case nameArguments:
		span = &m.Arguments
	case nameCursor:
		if end = s.checkValue(at, 2); end == at+2 && s.data[at] == '"' {
			return end // empty, as a client writes it that has none
		}
		span = &m.Cursor
	case nameState:
		span = &m.State
	case nameTask:
		span = &m.Task
	case nameResponses:
		span = &m.Responses
	}
	if end = s.checkValue(at, 2); end >= 0 && span != nil {
		s.setMember(span, at, end, reasonDupParam)
	}
	return end
}

func (s *scanner) metaMember(key []byte, at int) (end int) {
	if end = s.checkValue(at, 3); end < 0 {
		return end
	}
	switch findName(key) {
	case nameToken:
		if s.data[at] == 'n' {
			return end
		}
		if raw := s.data[at:end]; !isString(raw) && !isInteger(raw) {
			s.refuseMessage(reasonToken, at)
		}
		s.setMember(&s.m.ProgressToken, at, end, reasonDupToken)
	case nameRevision:
		s.setMember(&s.m.ProtocolVersion, at, end, reasonDupMeta)
	}
	return end
}

func (s *scanner) errorMember(key []byte, at int) (end int) {
	if end = s.checkValue(at, 2); end < 0 {
		return end
	}
	raw := s.data[at:end]
	switch findName(key) {
	case nameCode:
		s.errorCode = true
		if !isInteger(raw) {
			s.refuseMessage(reasonError, at)
		}
	case nameMessage:
		s.errorString = true
		if !isString(raw) {
			s.refuseMessage(reasonError, at)
		}
	}
	return end
}

// readBatch validates the batch at i, which may hold up to limit messages.
func (s *scanner) readBatch(i, limit int) int {
	b := s.data
	start := i
	if i = skipSpace(b, i+1); i < len(b) && b[i] == ']' {
		s.refuseMessage(reasonBatchEmpty, start)
		return i + 1
	}
	for n := 1; ; n++ {
		if n > limit {
			s.refuseMessage(reasonBatchTooLong, i)
		}
		if i < len(b) && b[i] == '[' {
			s.refuseMessage(reasonBatchNested, i)
		}
		if i = s.checkValue(i, 1); i < 0 {
			return -1
		}
		if i = skipSpace(b, i); i >= len(b) {
			return s.failAt(reasonEnd, i)
		}
		switch b[i] {
		case ',':
			i = skipSpace(b, i+1)
		case ']':
			s.m.Kind, s.m.N = Batch, n
			return i + 1
		default:
			return s.failAt(reasonComma, i)
		}
	}
}
