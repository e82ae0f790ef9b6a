package mcp

import "encoding/json"

// RequestMeta is the `_meta` of a request since 2026-07-28 (basic/index, "_meta"). The
// raw values point into the bytes they were read from.
type RequestMeta struct {
	Version      []byte          // the protocol version as it came, without its quotes
	Revision     Revision        // of Version; 0 for a version this package does not know
	ClientInfo   json.RawMessage // an object, or nil
	Capabilities json.RawMessage // an object
	LogLevel     LoggingLevel    // "" wants no log messages
}

// ReadRequestMeta reads a request's own `_meta` in place. The error, [CodeInvalidParams], names the
// first member that is missing or malformed. ReadRequestMeta then still returns what it could
// read, since a request of an unknown version need not have the other members. It
// allocates only if a member's name or the version has escapes, or if it fails.
func ReadRequestMeta(meta []byte) (RequestMeta, *Error) {
	var q RequestMeta
	var version, level json.RawMessage
	for it := newMembers(meta); it.next(); {
		key, plain := plainString(it.rawKey)
		if !plain {
			key = []byte(it.key())
		}
		switch string(key) { // of duplicates the last one counts, as it does when decoding
		case MetaProtocolVersion:
			version = it.value
		case MetaClientCapabilities:
			q.Capabilities = it.value
		case MetaClientInfo:
			q.ClientInfo = it.value
		case MetaLogLevel:
			level = it.value
		}
	}
	if version == nil || version[0] != '"' {
		return q, Errorf(CodeInvalidParams, "_meta must name the protocol version: %s", MetaProtocolVersion)
	}
	q.Version = unquoted(version)
	q.Revision, _ = ParseRevision(string(q.Version))
	if c := q.Capabilities; c == nil || c[0] != '{' {
		q.Capabilities = nil
		return q, Errorf(CodeInvalidParams, "_meta must have the client's capabilities: %s", MetaClientCapabilities)
	}
	if c := q.ClientInfo; c != nil && c[0] != '{' {
		q.ClientInfo = nil
		return q, Errorf(CodeInvalidParams, "_meta has a client info that is no object: %s", MetaClientInfo)
	}
	if level != nil {
		if q.LogLevel = parseLevel(unquoted(level)); q.LogLevel == "" {
			return q, Errorf(CodeInvalidParams, "_meta has a log level that is none: %s", MetaLogLevel)
		}
	}
	return q, nil
}

// unquoted returns the text of a string token, or the token itself if it is no string.
func unquoted(token []byte) []byte {
	if s, ok := plainString(token); ok {
		return s
	}
	var s string
	if json.Unmarshal(token, &s) != nil {
		return token
	}
	return []byte(s)
}
