package upstream

import (
	"github.com/troupe-run/troupe/codec"
	"github.com/troupe-run/troupe/mcp"
)

// An Era is what is known of the revisions that a backend speaks.
type Era uint8

// The eras.
const (
	EraUnknown Era = iota
	EraLegacy      // revisions with initialize, up to 2025-11-25
	EraModern      // revisions without sessions, since 2026-07-28
	EraBoth
)

var eraNames = [...]string{"unknown", "legacy", "modern", "both"}

// String returns a word for logs and records; it is "unknown" for what is no era.
func (e Era) String() string {
	if int(e) >= len(eraNames) {
		e = EraUnknown
	}
	return eraNames[e]
}

// ParseEra returns the era that String returns as s.
func ParseEra(s string) (Era, bool) {
	for i, name := range eraNames {
		if name == s {
			return Era(i), true
		}
	}
	return EraUnknown, false
}

// Settled is what both sides agreed on. Its bytes are the backend's, and not to be changed.
type Settled struct {
	Revision mcp.Revision
	// Found is what to remember of the backend for the next time. It is EraUnknown if the probe was
	// inconclusive: nothing, or something odd, came back.
	Found Era
	// Supported are the revisions that the backend says that it speaks, as far as we know them; empty if it did not say.
	Supported []mcp.Revision
	// ServerInfo and Capabilities are objects, Instructions is a string, all as raw JSON; nil if the backend has none.
	ServerInfo, Capabilities, Instructions []byte
	// Result is the whole result of initialize or server/discover.
	Result []byte
}

// readInitialize reads the result of initialize.
func readInitialize(result []byte) (Settled, *Failure) {
	version, ok := codec.Str(codec.Field(result, "protocolVersion"))
	if !ok {
		return Settled{}, badHandshake("the backend names no protocol version in its result of initialize", result)
	}
	revision, ok := mcp.ParseRevision(version)
	if !ok || revision.Stateless() {
		return Settled{}, noRevision(result)
	}
	s := Settled{Revision: revision, Result: result, ServerInfo: codec.Optional(result, "serverInfo")}
	f := s.readRest()
	return s, f
}

// readDiscover reads the result of server/discover, of which the list of revisions is read already.
func readDiscover(result []byte, supported []mcp.Revision) (Settled, *Failure) {
	s := Settled{Revision: mcp.Latest, Result: result, Supported: supported}
	s.ServerInfo = codec.Optional(codec.Field(result, "_meta"), mcp.MetaServerInfo)
	f := s.readRest()
	return s, f
}

// readRest reads what the two results have in common.
func (s *Settled) readRest() *Failure {
	s.Capabilities = codec.Optional(s.Result, "capabilities")
	s.Instructions = codec.Optional(s.Result, "instructions")
	if s.Capabilities != nil && s.Capabilities[0] != '{' {
		return badHandshake("the backend's capabilities are no object", s.Result)
	}
	if s.ServerInfo != nil && s.ServerInfo[0] != '{' { // a name to show: not worth more than to be left out
		s.ServerInfo = nil
	}
	if s.Instructions != nil && s.Instructions[0] != '"' {
		s.Instructions = nil
	}
	return nil
}

// readRevisions reads a list of revisions. ok is false if raw is no list of at least one text; revisions that we do not know are
// left out.
func readRevisions(raw []byte) (known []mcp.Revision, ok bool) {
	n := 0
	for one := range codec.Elements(raw) {
		text, isText := codec.Str(one)
		if !isText {
			return nil, false
		}
		if n++; n > MostBatch {
			break
		}
		if r, isKnown := mcp.ParseRevision(text); isKnown {
			known = append(known, r)
		}
	}
	return known, n > 0
}

// newestOf returns the newest revision of an era in a list, 0 if it has none.
func newestOf(all []mcp.Revision, stateless bool) (newest mcp.Revision) {
	for _, r := range all {
		if r.Stateless() == stateless {
			newest = max(newest, r)
		}
	}
	return newest
}

// eraOf returns what a list of revisions says.
func eraOf(all []mcp.Revision) Era {
	switch legacy, modern := newestOf(all, false) != 0, newestOf(all, true) != 0; {
	case legacy && modern:
		return EraBoth
	case modern:
		return EraModern
	case legacy:
		return EraLegacy
	}
	return EraUnknown
}

func badHandshake(text string, data []byte) *Failure {
	f := malformed(text, data)
	f.Outcome = NotRun
	return f
}

func noRevision(data []byte) *Failure {
	return &Failure{Why: ReasonEra, Outcome: NotRun, Text: "the backend speaks no revision of the protocol that we speak", Excerpt: excerptOf(data)}
}
