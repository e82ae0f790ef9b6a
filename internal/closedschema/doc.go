// Package closedschema makes the official schemas of older revisions, which leave
// every object open, strict enough to find members that those revisions do not
// have. It is for tests only, and imports only what is standard, so that fuzz
// targets may share a test binary with it.
package closedschema
