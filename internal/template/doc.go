// Package template takes URIs apart by RFC 6570 templates, and decides when two spellings are one URI.
//
// A [Template] is one regular expression, which decides both whether a URI matches and what its variables are. [New] refuses
// a template whose variables cannot be told apart. URIs and the text of templates are compared as [NormalizeURI] spells them.
//
// Everything here is a pure function of its arguments, and safe for concurrent use.
package template
