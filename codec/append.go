package codec

import "strconv"

// AppendResult appends the response to id, both raw JSON. A nil result is written as {}, since MCP's results are
// objects.
func AppendResult(dst, id, result []byte) []byte {
	dst = append(dst, `{"jsonrpc":"2.0","id":`...)
	dst = append(dst, id...)
	dst = append(dst, `,"result":`...)
	if result == nil {
		dst = append(dst, '{')
	}
	dst = append(dst, result...)
	if result == nil {
		dst = append(dst, '}')
	}
	return append(dst, '}')
}

// AppendError appends an error response. A nil id and nil data, both raw JSON, leave their members out; message is
// plain text.
func AppendError(dst, id []byte, code int, message string, data []byte) []byte {
	dst = append(dst, `{"jsonrpc":"2.0"`...)
	if id != nil {
		dst = append(dst, `,"id":`...)
		dst = append(dst, id...)
	}
	dst = append(dst, `,"error":{"code":`...)
	dst = strconv.AppendInt(dst, int64(code), 10)
	dst = append(dst, `,"message":`...)
	dst = AppendString(dst, message)
	if data != nil {
		dst = append(dst, `,"data":`...)
		dst = append(dst, data...)
	}
	return append(dst, '}', '}')
}

// AppendNotification appends a notification. method is plain text; nil params, else raw JSON, leave the member out.
func AppendNotification(dst []byte, method string, params []byte) []byte {
	dst = append(dst, `{"jsonrpc":"2.0","method":`...)
	return appendCall(dst, method, params)
}

// AppendRequest appends a request. id and params are raw JSON, nil params leave the member out; method is plain text.
func AppendRequest(dst, id []byte, method string, params []byte) []byte {
	dst = append(dst, `{"jsonrpc":"2.0","id":`...)
	dst = append(dst, id...)
	dst = append(dst, `,"method":`...)
	return appendCall(dst, method, params)
}

func appendCall(dst []byte, method string, params []byte) []byte {
	dst = AppendString(dst, method)
	if params != nil {
		dst = append(dst, `,"params":`...)
		dst = append(dst, params...)
	}
	return append(dst, '}')
}

// AppendCompact appends raw, which must be valid JSON, without its insignificant white space and so without line
// breaks. If there is none, it looks once at the bytes outside of strings and copies once.
func AppendCompact(dst, raw []byte) []byte {
	start := 0
	for i := 0; i < len(raw); {
		switch classes[raw[i]] {
		case classString:
			i = skipString(raw, i)
		case classSpace:
			dst = append(dst, raw[start:i]...)
			i = skipSpace(raw, i)
			start = i
		default:
			i++
		}
	}
	return append(dst, raw[start:]...)
}
