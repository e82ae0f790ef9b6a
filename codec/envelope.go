package codec

// The functions below tell raw tokens, with their quotes, apart without a copy.

// isString reports whether raw, which is valid JSON, is a string.
func isString(raw []byte) bool { return raw[0] == '"' }

// isNull reports whether raw, which is valid JSON or nothing, is null.
func isNull(raw []byte) bool { return len(raw) > 0 && raw[0] == 'n' }

// isInteger reports whether raw, which is valid JSON, is a number without fraction and exponent.
func isInteger(raw []byte) bool {
	if raw[0] != '-' && !isDigit(raw[0]) {
		return false
	}
	for _, c := range raw[1:] {
		if !isDigit(c) {
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

// findName finds the name of a raw key.
func findName(key []byte) name {
	if len(key) <= longestName && hasEscapes(key) {
		var buf [longestName]byte
		return findUnescaped(appendUnescaped(buf[:0], key))
	}
	return findUnescaped(key)
}

// findUnescaped finds the name of an unescaped key.
func findUnescaped(key []byte) name {
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
