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
