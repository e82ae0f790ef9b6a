package backend

import (
	"strconv"
	"strings"

	"github.com/troupe-run/troupe/codec"
	"github.com/troupe-run/troupe/host"
	"github.com/troupe-run/troupe/internal/backend/pool"
	"github.com/troupe-run/troupe/internal/upstream"
)

// A Caller is whose call it is.
type Caller struct {
	// Session is the key of the session, "" for a call without one.
	Session string
	// Principal is the key of the principal, "" where nobody says who calls.
	Principal string
	// Alone says that nobody says who calls, and that it may be several: a call without a session shares with no other.
	Alone bool
	// Modern says that the caller speaks 2026-07-28: a backend of both eras is spoken to in it.
	Modern bool
	// Capabilities are those that the client declares, an object as raw JSON, or nil. Instances of the older era are told them.
	Capabilities []byte
}

// holderOf returns whose instance the call of a caller is given, as a pool knows it: "" where all share, or each call has its own.
// once says that it is nobody's again when the call has ended.
func (c *Caller) holderOf(by host.Isolation, id pool.WantID) (holder string, once bool) {
	switch {
	case by == host.ByCall || by == host.Shared:
		return "", false
	case c.Session != "" && (by == host.BySession || c.Principal == "" && c.Alone):
		return sessionHolder(c.Session), false
	case c.Alone && c.Principal == "":
		return "call " + strconv.FormatUint(uint64(id), 10), true
	}
	return principalPrefix + c.Principal, false
}

// Holder returns whose instance the calls of a caller are given: all callers with the same one may know the same of a backend. lasts is false where an
// instance is a single call's, so that nothing is heard of it later.
func (c *Caller) Holder(by host.Isolation) (holder string, lasts bool) {
	holder, once := c.holderOf(by, 0)
	return holder, !once && by != host.ByCall
}

// What holders are, by how they begin. What has neither beginning is a call.
const (
	sessionPrefix   = "session "
	principalPrefix = "principal "
)

// sessionHolder is the holder that a session is.
func sessionHolder(session string) string { return sessionPrefix + session }

// sessionOf is the session that a holder is, "" if it is none.
func sessionOf(holder string) string {
	session, ok := strings.CutPrefix(holder, sessionPrefix)
	if !ok {
		return ""
	}
	return session
}

// toldCapabilities are the capabilities that an instance of a backend is told of the clients that it serves: an object as raw JSON.
// Only what a server may ask for counts, so that clients that differ in nothing else share instances.
func (c *Caller) toldCapabilities(o *host.Options) []byte {
	out := []byte{'{'}
	add := func(name string, value []byte) {
		if value == nil {
			return
		}
		if len(out) > 1 {
			out = append(out, ',')
		}
		out = codec.AppendCompact(append(append(append(out, '"'), name...), '"', ':'), value)
	}
	add("elicitation", codec.Optional(c.Capabilities, "elicitation"))
	switch {
	case o.Roots.Forward:
		add("roots", codec.Optional(c.Capabilities, "roots"))
	case len(o.Roots.List) > 0:
		add("roots", []byte("{}"))
	}
	add("sampling", codec.Optional(c.Capabilities, "sampling"))
	return append(out, '}')
}

// kindOf returns the kind of the instances that may serve a caller. It is the same for all calls of a session, whatever is found out of
// the backend meanwhile, so that the session keeps its instance.
func (c *Caller) kindOf(b *Backend) pool.Kind {
	era := upstream.EraLegacy
	if c.Modern {
		era = upstream.EraModern
	}
	if pin, pinned := b.configuredEra(); pinned {
		era = pin
	}
	return pool.Kind{Backend: b.Name, Digest: b.Digest, Client: era.String() + " " + string(c.toldCapabilities(&b.Options))}
}

// parseClient returns what an instance of a kind is told of its clients: the era in which a backend of both is spoken to, and capabilities.
func parseClient(k pool.Kind) (upstream.Era, []byte) {
	name, capabilities, _ := strings.Cut(k.Client, " ")
	era, _ := upstream.ParseEra(name)
	return era, []byte(capabilities)
}
