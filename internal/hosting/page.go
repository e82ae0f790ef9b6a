package hosting

import (
	"crypto/sha256"
	"encoding/hex"
	"strings"

	"github.com/troupe-run/troupe/internal/backend/listing"
)

// A View says what of backends somebody sees.
type View struct {
	Caller *Caller
	// Own reports whether the server itself has an item of a name: those of backends are behind it.
	Own func(name string) bool
	// Sees reports whether an item is visible; nil sees all.
	Sees func(*Item) bool
}

// part is what one backend has of a list, as somebody sees it.
type part struct {
	backend *mounted
	in      *reading
	list    *listing.List
	sees    func(*listing.Item) bool // nil sees all
}

// parts returns what each backend has of a list that v sees. An item whose name another one has that comes first is not seen.
func (s *Server) parts(of listing.Of, v *View) []part {
	var all []part
	for _, m := range *s.mounted.Load() {
		r := s.reading(m, v.Caller)
		if r == nil || r.lists[of].Len() == 0 {
			continue
		}
		before := all
		all = append(all, part{m, r, r.lists[of], func(item *listing.Item) bool {
			if v.Own != nil && v.Own(item.Name) {
				return false
			}
			for i := range before {
				if _, taken := before[i].list.Find(item.Name); taken {
					return false
				}
			}
			return v.Sees == nil || v.Sees(&Item{item, of, m, r})
		}})
	}
	return all
}

// A page of a list begins behind an item. That of a backend has the mark in front, the backend's key, another mark, and the item's name;
// what begins with the first item of a backend has no name.
const mark = "\x00"

// IsHosted reports whether a page that begins behind an item begins with those of backends.
func IsHosted(after string) bool { return strings.HasPrefix(after, mark) }

// Start is behind the server's own items.
const Start = mark

// AppendPage appends up to size items of backends that v sees, with commas between them and, unless first is set, before them. They begin
// behind the item that after says, which is Start or what was returned as last. last is what the next page begins behind, "" if
// there is none.
func (s *Server) AppendPage(dst []byte, first bool, of listing.Of, v *View, after string, size int) (out []byte, last string) {
	parts := s.parts(of, v)
	at, behind := 0, ""
	if key, name, ok := strings.Cut(strings.TrimPrefix(after, mark), mark); ok {
		for i := range parts {
			if parts[i].backend.Key == key {
				at, behind = i, name
			}
		}
	}
	for i := at; i < len(parts); i++ {
		p := &parts[i]
		if size == 0 { // is there anything more?
			if p.hasVisible() {
				return dst, mark + p.backend.Key + mark
			}
			continue
		}
		var n int
		var more string
		dst, n, more = p.list.AppendPage(dst, first, p.sees, v.Caller.Revision, behind, size)
		if more != "" {
			return dst, mark + p.backend.Key + mark + more
		}
		first, size, behind = first && n == 0, size-n, ""
	}
	return dst, ""
}

func (p *part) hasVisible() bool {
	for item := range p.list.All {
		if p.sees(item) {
			return true
		}
	}
	return false
}

// Digest returns the digest of lists with what v sees of those of backends behind the server's own, whose digest is own.
func (s *Server) Digest(own string, v *View, lists ...listing.Of) string {
	h := sha256.New()
	h.Write([]byte(own))
	some := false
	for _, of := range lists {
		for _, m := range *s.mounted.Load() {
			r := s.reading(m, v.Caller)
			if r == nil || r.lists[of].Len() == 0 {
				continue
			}
			some = true
			h.Write([]byte(mark + m.Key + mark))
			if v.Sees == nil {
				h.Write([]byte(r.lists[of].Digest()))
				continue
			}
			for item := range r.lists[of].All {
				if v.Sees(&Item{item, of, m, r}) {
					h.Write(item.Raw)
					h.Write([]byte{'\n'})
				}
			}
		}
	}
	if !some {
		return own
	}
	return hex.EncodeToString(h.Sum(nil)[:6])
}
