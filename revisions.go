package troupe

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

// Revisions returns the protocol revisions that this release speaks, oldest first. Each
// server speaks all of them, unless [Options] or [ServerOptions] name fewer.
func Revisions() []string { return revisionNames(mcp.Revisions()) }

// spoken are the revisions that a server speaks, oldest first. What a client is told of them, and which
// requests it may send, is all decided by this list.
type spoken []mcp.Revision

// oldestFirst returns a copy, oldest first.
func oldestFirst(revisions []mcp.Revision) []mcp.Revision {
	out := slices.Clone(revisions)
	slices.Sort(out)
	return out
}

// checkRevisions names everything that is wrong with a list of revisions. nil stands for all.
func checkRevisions(option string, revisions []mcp.Revision) error {
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
			faults = append(faults, fmt.Errorf("%s: mcp.Revision(%d) is no revision: want some of %s", option, r, strings.Join(Revisions(), ", ")))
		case seen[r]:
			faults = append(faults, fmt.Errorf("%s: %s comes twice", option, name))
		}
		seen[r] = true
	}
	return errors.Join(faults...)
}

// withSessions are the revisions whose clients begin a session with initialize. They come before the others.
func (all spoken) withSessions() spoken { return all[:all.firstStateless()] }

// withoutSessions are the revisions whose requests belong to no session.
func (all spoken) withoutSessions() spoken { return all[all.firstStateless():] }

func (all spoken) firstStateless() int {
	i := 0
	for i < len(all) && !all[i].Stateless() {
		i++
	}
	return i
}

// hasFeature reports whether a revision with the feature is spoken.
func (all spoken) hasFeature(f protocol.Feature) bool {
	return slices.ContainsFunc(all, func(r mcp.Revision) bool { return protocol.Has(r, f) })
}

// newestFirst returns the revisions in the order in which clients get them: a client takes the
// first one that it knows.
func (all spoken) newestFirst() []string {
	out := revisionNames(all)
	slices.Reverse(out)
	return out
}

// refuseVersion returns the error for a version that is not spoken. An empty text is the one of the code.
func (all spoken) refuseVersion(requested, text string) *mcp.Error {
	return mcp.NewError(mcp.CodeUnsupportedVersion, text).WithData(protocol.UnsupportedVersionData{Supported: all.newestFirst(), Requested: shownName(requested)})
}

// refuseInitialize returns the error for initialize where no revision that is spoken has it (2026-07-28,
// basic/versioning). A client that sends initialize may show its user the text alone.
func (all spoken) refuseInitialize(requested string) *mcp.Error {
	return all.refuseVersion(requested, "Unsupported protocol version: this server speaks only "+strings.Join(all.newestFirst(), ", "))
}

// looksStateless reports whether a request that came without headers is meant to be
// stateless, even if its metadata are not complete: older revisions have neither its method
// nor such metadata. A server that speaks only revisions without sessions takes every request for
// one, but for initialize, whose refusal tells the client which revisions there are; and a server that
// speaks none of them takes none for one, as it would if there were none.
func (all spoken) looksStateless(m *codec.Message) bool {
	switch {
	case len(all.withoutSessions()) == 0:
		return false
	case len(all.withSessions()) == 0:
		return string(m.Method) != mcp.MethodInitialize
	}
	return m.ProtocolVersion != nil || string(m.Method) == mcp.MethodServerDiscover || codec.Optional(m.Meta, mcp.MetaClientCapabilities) != nil
}

// judgeMessage decides whether a message that came without headers is a stateless request, and refuses one that no
// revision allows.
func (all spoken) judgeMessage(m *codec.Message) (stateless bool, refused *mcp.Error) {
	switch {
	case m.Kind == codec.Batch && len(all.withSessions()) == 0:
		return false, refusal.OneMessage.MCP()
	case m.Kind != codec.Request || !all.looksStateless(m):
		return false, nil
	}
	return true, all.checkMeta(m)
}

// checkMeta checks the metadata of a stateless request that came without headers
// (2026-07-28, basic/index, _meta).
func (all spoken) checkMeta(m *codec.Message) *mcp.Error {
	q, err := mcp.ReadRequestMeta(m.Meta)
	if q.Version == nil || q.Revision.Stateless() && slices.Contains(all, q.Revision) {
		return err
	}
	return all.refuseVersion(string(q.Version), "")
}

func revisionNames(revisions []mcp.Revision) []string {
	names := make([]string, len(revisions))
	for i, r := range revisions {
		names[i] = r.String()
	}
	return names
}
