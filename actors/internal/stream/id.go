package stream

import (
	"errors"
	"strconv"
	"strings"
)

// ErrEnded reports that entries were pushed to a stream that has ended. They were not
// stored.
var ErrEnded = errors.New("stream: ended")

// IDLength is the length of a stream's id.
const IDLength = 26

// Position is an event id: the stream, the append, the epoch of the writer that stored it,
// and the entry within it. Position 0.0 of a stream is its priming event, before anything
// else. Epochs are never used twice. So one position never stands for two events, even if a
// power cut has undone appends and another writer stores others under their numbers.
type Position struct {
	Stream string
	Append uint64
	Epoch  uint64 // 0 in appends of releases whose event ids had no epoch
	Entry  int
}

// maxEntries is more than an append holds: the last number of an id is
// Epoch*maxEntries + Entry.
const (
	maxEntries = 1 << 12
	maxEpoch   = 1 << 50
)

// String is the wire form of the position.
func (p Position) String() string { return string(p.AppendTo(nil)) }

// AppendTo appends the wire form of the position to b.
func (p Position) AppendTo(b []byte) []byte {
	b = append(b, p.Stream...)
	b = append(b, '.')
	b = strconv.AppendUint(b, p.Append, 10)
	b = append(b, '.')
	return strconv.AppendUint(b, p.Epoch*maxEntries+uint64(p.Entry), 10)
}

// ParsePosition reads an event id; ok is false for anything this server cannot
// have sent.
func ParsePosition(s string) (p Position, ok bool) {
	id, rest, found := strings.Cut(s, ".")
	if !found || !ValidID(id) {
		return p, false
	}
	a, k, found := strings.Cut(rest, ".")
	if !found {
		return p, false
	}
	num, ok1 := parseNumber(a)
	last, ok2 := parseNumber(k)
	if !ok1 || !ok2 || last >= maxEpoch*maxEntries || (num == 0 && last != 0) {
		return p, false
	}
	return Position{Stream: id, Append: num, Epoch: last / maxEntries, Entry: int(last % maxEntries)}, true
}

// parseNumber reads a canonical decimal, so that each position has one spelling.
func parseNumber(s string) (uint64, bool) {
	n, err := strconv.ParseUint(s, 10, 63)
	return n, err == nil && strconv.FormatUint(n, 10) == s
}

// ValidID reports whether s has the form of an id of a session or stream: 26
// characters of lower-case base32, which are 16 bytes.
func ValidID(s string) bool {
	if len(s) != IDLength {
		return false
	}
	for i := range len(s) {
		if c := s[i]; (c < 'a' || c > 'z') && (c < '2' || c > '7') {
			return false
		}
	}
	return true
}
