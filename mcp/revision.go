package mcp

// Revision is a revision of the protocol. Later revisions compare greater. The zero value
// is no revision: a peer's version string that this package does not know.
type Revision uint8

// The revisions in order.
const (
	Revision20241105 Revision = iota + 1
	Revision20250326
	Revision20250618
	Revision20251125
	Revision20260728

	// Latest is the newest revision.
	Latest = Revision20260728
	// LatestLegacy is the newest revision that has sessions and initialize.
	LatestLegacy = Revision20251125
)

var revisionNames = [Latest + 1]string{
	Revision20241105: "2024-11-05",
	Revision20250326: "2025-03-26",
	Revision20250618: "2025-06-18",
	Revision20251125: "2025-11-25",
	Revision20260728: "2026-07-28",
}

// Revisions returns all revisions, oldest first.
func Revisions() []Revision {
	return []Revision{Revision20241105, Revision20250326, Revision20250618, Revision20251125, Revision20260728}
}

// ParseRevision returns the revision with this exact date.
func ParseRevision(s string) (Revision, bool) {
	for r := Latest; r >= Revision20241105; r-- {
		if revisionNames[r] == s {
			return r, true
		}
	}
	return 0, false
}

// String returns the date, as in protocolVersion, or "" for no revision.
func (r Revision) String() string {
	if r > Latest {
		return ""
	}
	return revisionNames[r]
}

// Valid reports whether r is one of the revisions.
func (r Revision) Valid() bool { return r >= Revision20241105 && r <= Latest }

// Stateless reports whether r has no sessions: each request belongs to none.
func (r Revision) Stateless() bool { return r >= Revision20260728 && r <= Latest }
