package main

import (
	"bytes"
	"strings"
)

// opening is how every answer begins; the id follows.
const opening = `{"jsonrpc":"2.0","id":`

// A constant has the answers of a bare kind, from what follows the id on. They are the same for all
// requests of a method.
type constant struct {
	call, initialize, list []byte
}

// newConstant returns answers whose text has size bytes.
func newConstant(size int) *constant {
	return &constant{
		call: []byte(`,"result":{"content":[{"type":"text","text":"` + strings.Repeat("x", size) + `"}]}}`),
		initialize: []byte(`,"result":{"protocolVersion":"2025-11-25","capabilities":{"tools":{}},"serverInfo":{"name":"` + name + `","version":"` +
			version + `"}}}`),
		list: []byte(`,"result":{"resultType":"complete","tools":[{"name":"echo","inputSchema":{"type":"object"}}]}}`),
	}
}

var (
	idMember   = []byte(`"id":`)
	callMember = []byte(`,"method":"tools/call"`)
	initMember = []byte(`,"method":"initialize"`)
)

// appendAnswer appends the answer to a request, and nothing for a notification. It finds the id and
// the method where a request that was written without spaces has them, one after the other, and
// reads nothing else.
func (c *constant) appendAnswer(dst, body []byte) []byte {
	at := bytes.Index(body, idMember)
	if at < 0 {
		return dst
	}
	rest := body[at+len(idMember):]
	end := bytes.IndexByte(rest, ',')
	if end < 0 {
		return dst
	}
	result := c.list
	switch {
	case bytes.HasPrefix(rest[end:], callMember):
		result = c.call
	case bytes.HasPrefix(rest[end:], initMember):
		result = c.initialize
	}
	dst = append(dst, opening...)
	dst = append(dst, rest[:end]...)
	return append(dst, result...)
}
