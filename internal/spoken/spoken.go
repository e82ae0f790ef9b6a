// Package spoken has the revisions of the protocol that a server speaks, and what it tells clients
// of others. Its values do not change.
package spoken

import (
	"errors"
	"fmt"
	"slices"
	"strings"

	"github.com/troupe-run/troupe/codec"
	"github.com/troupe-run/troupe/internal/protocol"
	"github.com/troupe-run/troupe/internal/refusal"
	"github.com/troupe-run/troupe/mcp"
)

// Revisions are those that a server speaks, oldest first. What a client is told of them, and which
// requests it may send, is all decided by this list.
type Revisions []mcp.Revision

// OldestFirst returns a copy of revisions, oldest first.
func OldestFirst(revisions []mcp.Revision) []mcp.Revision {
	out := slices.Clone(revisions)
	slices.Sort(out)
	return out
}

// Check names everything that is wrong with a list of revisions. nil stands for all.
func Check(option string, revisions []mcp.Revision) error {
	if revisions == nil {
		return nil
	}
	if len(revisions) == 0 {
		return fmt.Errorf("%s is empty: a server must speak one revision at least; nil stands for all", option)
	}
	var faults []error
	seen := make(map[mcp.Revision]bool)
	for _, r := range revisions {
		switch name := r.String(); {
		case !r.Valid():
			faults = append(faults, fmt.Errorf("%s: mcp.Revision(%d) is no revision: want some of %s", option, r, strings.Join(Names(mcp.Revisions()), ", ")))
		case seen[r]:
			faults = append(faults, fmt.Errorf("%s: %s comes twice", option, name))
		}
		seen[r] = true
	}
	return errors.Join(faults...)
}

// WithSessions are the revisions whose clients begin a session with initialize. They come before the others.
func (all Revisions) WithSessions() Revisions { return all[:all.firstStateless()] }

// WithoutSessions are the revisions whose requests belong to no session.
func (all Revisions) WithoutSessions() Revisions { return all[all.firstStateless():] }

func (all Revisions) firstStateless() int {
	i := 0
	for i < len(all) && !all[i].Stateless() {
		i++
	}
	return i
}

// HasFeature reports whether a revision with the feature is spoken.
func (all Revisions) HasFeature(f protocol.Feature) bool {
	return slices.ContainsFunc(all, func(r mcp.Revision) bool { return protocol.Has(r, f) })
}

// NewestFirst returns the revisions in the order in which clients get them: a client takes the
// first one that it knows.
func (all Revisions) NewestFirst() []string {
	out := Names(all)
	slices.Reverse(out)
	return out
}

// refuseVersion returns the error for a version that is not spoken. An empty text is the one of the code.
func (all Revisions) refuseVersion(requested, text string) *mcp.Error {
	return mcp.NewError(mcp.CodeUnsupportedVersion, text).WithData(protocol.UnsupportedVersionData{Supported: all.NewestFirst(), Requested: protocol.Shown(requested)})
}

// RefuseInitialize returns the error for initialize where no revision that is spoken has it (2026-07-28,
// basic/versioning). A client that sends initialize may show its user the text alone.
func (all Revisions) RefuseInitialize(requested string) *mcp.Error {
	return all.refuseVersion(requested, "Unsupported protocol version: this server speaks only "+strings.Join(all.NewestFirst(), ", "))
}

// looksStateless reports whether a request that came without headers is meant to be
// stateless, even if its metadata are not complete: older revisions have neither its method
// nor such metadata. A server that speaks only revisions without sessions takes every request for
// one, but for initialize, whose refusal tells the client which revisions there are; and a server that
// speaks none of them takes none for one, as it would if there were none.
func (all Revisions) looksStateless(m *codec.Message) bool {
	switch {
	case len(all.WithoutSessions()) == 0:
		return false
	case len(all.WithSessions()) == 0:
		return string(m.Method) != mcp.MethodInitialize
	}
	return m.ProtocolVersion != nil || string(m.Method) == mcp.MethodServerDiscover || codec.Optional(m.Meta, mcp.MetaClientCapabilities) != nil
}

// JudgeMessage decides whether a message that came without headers is a stateless request, and refuses one that no
// revision allows.
func (all Revisions) JudgeMessage(m *codec.Message) (stateless bool, refused *mcp.Error) {
	switch {
	case m.Kind == codec.Batch && len(all.WithSessions()) == 0:
		return false, refusal.OneMessage.MCP()
	case m.Kind != codec.Request || !all.looksStateless(m):
		return false, nil
	}
	return true, all.checkMeta(m)
}

// checkMeta checks the metadata of a stateless request that came without headers
// (2026-07-28, basic/index, _meta).
func (all Revisions) checkMeta(m *codec.Message) *mcp.Error {
	q, err := mcp.ReadRequestMeta(m.Meta)
	if q.Version == nil || q.Revision.Stateless() && slices.Contains(all, q.Revision) {
		return err
	}
	return all.refuseVersion(string(q.Version), "")
}

// Names returns revisions as they are on the wire.
func Names(revisions []mcp.Revision) []string {
	names := make([]string, len(revisions))
	for i, r := range revisions {
		names[i] = r.String()
	}
	return names
}
