// Package program says which programs nodes serve under the ids of servers, and whose they are: nodes that have the same program under an id take its sessions and
// tasks for each other, and of two that have different ones the later must not serve.
//
// A node writes its claims with its entry in the store, and reads those of others after that: so of two nodes at least the later sees the earlier.
// Nothing here does I/O. Claims are used by one goroutine at a time, but for their ids, names and tools, which never change.
package program

import (
	"encoding/binary"
	"fmt"
	"hash/fnv"
	"maps"
	"slices"
	"strings"
)

const (
	// most is how many servers are claimed by name. Of more, nodes compare only a digest.
	most = 64
	// mostName bounds the name of an implementation, in bytes.
	mostName = 64
)

// Program is what is served under the id of a server.
type Program struct {
	Name  string // of the implementation; 64 bytes of it count
	Tools string // a digest
}

// Claim is a program in an entry.
type Claim struct {
	Name  string `json:"name"`
	Tools string `json:"tools,omitempty"`
	Since uint64 `json:"since,omitempty"` // the revision of the first entry that has it, which does not know that yet

	sent bool // it is in the entry that is being written
}

// Claims are the programs of a node by the ids of their servers.
type Claims map[string]*Claim

// Of returns the claims of all programs. What was claimed before, and has its name still, is as old as it was.
func Of(all map[string]Program, before Claims) Claims {
	claims := make(Claims, len(all))
	for id, p := range all {
		c := &Claim{Name: strings.ToValidUTF8(p.Name[:min(len(p.Name), mostName)], ""), Tools: p.Tools}
		if old := before[id]; old != nil && old.Name == c.Name {
			c.Since, c.sent = old.Since, old.sent
		}
		claims[id] = c
	}
	return claims
}

// Few reports whether an entry has room for the claims.
func (c Claims) Few() bool { return len(c) <= most }

// IDs are the ids, in their order.
func (c Claims) IDs() []string { return slices.Sorted(maps.Keys(c)) }

// Digests are those of the ids, and of all that is claimed.
func (c Claims) Digests() (ids, all uint64) {
	lengthened := func(s string) []byte { return append(binary.AppendUvarint(nil, uint64(len(s))), s...) }
	first, second := fnv.New64a(), fnv.New64a()
	for _, id := range c.IDs() {
		_, _ = first.Write(lengthened(id)) // never fails
		_, _ = second.Write(slices.Concat(lengthened(id), lengthened(c[id].Name), lengthened(c[id].Tools)))
	}
	return first.Sum64(), second.Sum64()
}

// Send notes that an entry is being written with all claims.
func (c Claims) Send() {
	for _, x := range c {
		x.sent = true
	}
}

// Stored notes that the entry that Send was called for is stored, with this revision.
func (c Claims) Stored(rev uint64) {
	for _, x := range c {
		if x.sent && x.Since == 0 {
			x.Since = rev
		}
	}
}

// Anew makes all claims new: the store has lost the entries, and counts their revisions anew.
func (c Claims) Anew() {
	for _, x := range c {
		x.Since = 0
	}
}

// Read completes claims that were read of an entry of another node, of revision rev.
func (c Claims) Read(rev uint64) {
	maps.DeleteFunc(c, func(_ string, x *Claim) bool { return x == nil })
	c.Send()
	c.Stored(rev)
}

// Earlier says which other programs another node claimed under the same ids before, "" if none. A node that claims nothing is of a release that does not say.
func (c Claims) Earlier(there Claims) string {
	var what []string
	for _, id := range c.IDs() {
		mine, its := c[id], there[id]
		if its != nil && its.Name != mine.Name && (mine.Since == 0 || its.Since < mine.Since) {
			what = append(what, fmt.Sprintf("server %q is %q there and %q here", id, its.Name, mine.Name))
		}
	}
	return strings.Join(what, ", ")
}

// OtherTools are the ids under which both have a server, with other tools.
func (c Claims) OtherTools(there Claims) (ids []string) {
	for _, id := range c.IDs() {
		if its := there[id]; its != nil && its.Tools != c[id].Tools {
			ids = append(ids, id)
		}
	}
	return ids
}
