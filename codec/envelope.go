package codec

// The functions below tell raw tokens, with their quotes, apart without a copy.

// isString reports whether raw, which is valid JSON, is a string.
func isString(raw []byte) bool { return raw[0] == '"' }

// isNull reports whether raw, which is valid JSON or nothing, is null.
func isNull(raw []byte) bool { return len(raw) > 0 && raw[0] == 'n' }

// isInteger reports whether raw, which is valid JSON, is a number without fraction and exponent.
func isInteger(raw []byte) bool {
	if raw[0] != '-' && !digit(raw[0]) {
		return false
	}
	for _, c := range raw[1:] {
		if !digit(c) {
			return false
		}
	}
	return true
}

// names of the members Scan reads.
type name uint8

const (
	nameOther name = iota
	nameJSONRPC
	nameID
	nameMethod
	nameParams
	nameResult
	nameError
	nameMeta
	nameToken
	nameRevision
	nameName
	nameURI
	nameArguments
	nameCursor
	nameState
	nameTask
	nameResponses
	nameCode
	nameMessage
)

// longestName is the length of the longest name, with an escape of six bytes for every character.
const longestName = 6 * len(keyRevision)

// keyRevision is the key of _meta that has the revision of a single request (2026-07-28).
const keyRevision = "io.modelcontextprotocol/protocolVersion"

// named finds the name of a raw key.
func named(key []byte) name {
	if len(key) <= longestName && escaped(key) {
		var buf [longestName]byte
		return exactly(appendUnescaped(buf[:0], key))
	}
	return exactly(key)
}

// exactly finds the name of an unescaped key.
func exactly(key []byte) name {
	switch string(key) {
	case "jsonrpc":
		return nameJSONRPC
	case "id":
		return nameID
	case "method":
		return nameMethod
	case "params":
		return nameParams
	case "result":
		return nameResult
	case "error":
		return nameError
	case "_meta":
		return nameMeta
	case "progressToken":
		return nameToken
	case keyRevision:
		return nameRevision
	case "name":
		return nameName
	case "uri":
		return nameURI
	case "arguments":
		return nameArguments
	case "cursor":
		return nameCursor
	case "requestState":
		return nameState
	case "task":
		return nameTask
	case "inputResponses":
		return nameResponses
	case "code":
		return nameCode
	case "message":
		return nameMessage
	}
	return nameOther
}

// envelope reads the message at i, whose object is the depth-th container, and classifies it.
func (s *scanner) envelope(i, depth int) int {
	start := i
	if i = s.object(i, depth, inEnvelope); i < 0 {
		return -1
	}
	m := s.m
	if (s.method || m.Err != nil) && isNull(m.Result) {
		m.Result = nil
	}
	switch answer := m.Result != nil || m.Err != nil; {
	case !s.version:
		s.refuse(reasonNoVersion, start)
	case s.method && answer:
		s.refuse(reasonMixed, start)
	case m.Result != nil && m.Err != nil:
		s.refuse(reasonBoth, start)
	case s.method && m.ID != nil:
		m.Kind = Request
	case s.method:
		m.Kind = Notification
	case m.Err != nil:
		m.Kind = ErrorResponse
	case m.Result != nil && m.ID != nil:
		m.Kind = Result
	case m.Result != nil:
		s.refuse(reasonNoID, start)
	default:
		s.refuse(reasonNeither, start)
	}
	return i
}

func (s *scanner) envelopeMember(key []byte, at int) (end int) {
	m := s.m
	switch named(key) {
	case nameJSONRPC:
		if end = s.value(at, 1); end < 0 {
			return -1
		}
		if s.version {
			s.refuse(reasonDuplicate, at)
		}
		s.version = true
		if raw := s.data[at:end]; string(raw) != `"2.0"` && !SameString(raw, "2.0") {
			s.refuse(reasonVersion, at)
		}
	case nameID:
		if end = s.value(at, 1); end < 0 {
			return -1
		}
		s.dupID = s.dupID || m.ID != nil
		s.set(&m.ID, at, end, reasonDuplicate)
		if raw := s.data[at:end]; !isString(raw) && !isInteger(raw) {
			s.badID = true
			s.refuse(reasonID, at)
		}
	case nameMethod:
		if end = s.value(at, 1); end < 0 {
			return -1
		}
		if s.method {
			s.refuse(reasonDuplicate, at)
			break
		}
		s.method = true
		raw := s.data[at:end:end]
		if !isString(raw) {
			s.refuse(reasonMethod, at)
			break
		}
		m.Method = raw[1 : len(raw)-1 : len(raw)-1]
		if escaped(m.Method) {
			m.Method = appendUnescaped(make([]byte, 0, len(m.Method)), m.Method)
		}
	case nameParams:
		if s.data[at] == 'n' {
			return s.value(at, 1)
		}
		if s.data[at] != '{' {
			s.refuse(reasonParams, at)
			end = s.value(at, 1)
		} else if m.Params != nil {
			end = s.value(at, 1)
		} else {
			end = s.object(at, 2, inParams)
		}
		if end >= 0 {
			s.set(&m.Params, at, end, reasonDuplicate)
		}
	case nameResult:
		if end = s.value(at, 1); end >= 0 {
			s.set(&m.Result, at, end, reasonDuplicate)
		}
	case nameError:
		if s.data[at] == 'n' {
			return s.value(at, 1)
		}
		if s.data[at] != '{' {
			s.refuse(reasonError, at)
			end = s.value(at, 1)
		} else if end = s.object(at, 2, inError); end >= 0 && !(s.errorCode && s.errorString) {
			s.refuse(reasonError, at)
		}
		if end >= 0 {
			s.set(&m.Err, at, end, reasonDuplicate)
		}
	default:
		end = s.value(at, 1)
	}
	return end
}

func (s *scanner) paramsMember(key []byte, at int) (end int) {
	m := s.m
	var span *[]byte
	found := named(key)
	if found != nameOther && s.data[at] == 'n' {
		return s.value(at, 2)
	}
	switch found {
	case nameMeta:
		if s.data[at] == '{' && m.Meta == nil {
			end = s.object(at, 3, inMeta)
		} else {
			end = s.value(at, 2)
		}
		if end >= 0 {
			s.set(&m.Meta, at, end, reasonDupParam)
		}
		return end
	case nameName:
		span = &m.Name
	case nameURI:
		span = &m.URI
	case nameArguments:
		span = &m.Arguments
	case nameCursor:
		if end = s.value(at, 2); end == at+2 && s.data[at] == '"' {
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
	if end = s.value(at, 2); end >= 0 && span != nil {
		s.set(span, at, end, reasonDupParam)
	}
	return end
}

func (s *scanner) metaMember(key []byte, at int) (end int) {
	if end = s.value(at, 3); end < 0 {
		return end
	}
	switch named(key) {
	case nameToken:
		if s.data[at] == 'n' {
			return end
		}
		if raw := s.data[at:end]; !isString(raw) && !isInteger(raw) {
			s.refuse(reasonToken, at)
		}
		s.set(&s.m.ProgressToken, at, end, reasonDupToken)
	case nameRevision:
		s.set(&s.m.ProtocolVersion, at, end, reasonDupMeta)
	}
	return end
}

func (s *scanner) errorMember(key []byte, at int) (end int) {
	if end = s.value(at, 2); end < 0 {
		return end
	}
	raw := s.data[at:end]
	switch named(key) {
	case nameCode:
		s.errorCode = true
		if !isInteger(raw) {
			s.refuse(reasonError, at)
		}
	case nameMessage:
		s.errorString = true
		if !isString(raw) {
			s.refuse(reasonError, at)
		}
	}
	return end
}

// batch validates the batch at i, which may hold up to limit messages.
func (s *scanner) batch(i, limit int) int {
	b := s.data
	start := i
	if i = space(b, i+1); i < len(b) && b[i] == ']' {
		s.refuse(reasonBatchEmpty, start)
		return i + 1
	}
	for n := 1; ; n++ {
		if n > limit {
			s.refuse(reasonBatchTooLong, i)
		}
		if i < len(b) && b[i] == '[' {
			s.refuse(reasonBatchNested, i)
		}
		if i = s.value(i, 1); i < 0 {
			return -1
		}
		if i = space(b, i); i >= len(b) {
			return s.fail(reasonEnd, i)
		}
		switch b[i] {
		case ',':
			i = space(b, i+1)
		case ']':
			s.m.Kind, s.m.N = Batch, n
			return i + 1
		default:
			return s.fail(reasonComma, i)
		}
	}
}
