package troupe

import (
	"slices"

	"github.com/troupe-run/troupe/mcp"
)

// The revisions that this release speaks, oldest first: those whose clients begin a
// session with initialize, and those whose requests each stand for themselves.
var (
	handshakes         = []mcp.Revision{mcp.Revision20241105, mcp.Revision20250326, mcp.Revision20250618, mcp.Revision20251125}
	statelessRevisions = []mcp.Revision{mcp.Revision20260728}
)

// Revisions are the protocol revisions that this release serves, oldest first: each
// server serves clients of all of them.
func Revisions() []string { return append(names(handshakes), names(statelessRevisions)...) }

// newestFirst are the same in the order in which clients are told of them: a client
// takes the first one that it knows.
func newestFirst() []string {
	all := Revisions()
	slices.Reverse(all)
	return all
}

func names(revisions []mcp.Revision) []string {
	names := make([]string, len(revisions))
	for i, r := range revisions {
		names[i] = r.String()
	}
	return names
}
