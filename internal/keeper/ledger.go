package keeper

import (
	"fmt"
	"maps"
	"slices"
)

const (
	maxName   = 256     // the name of a text that is remembered, in bytes
	maxLedger = 8 << 20 // all of one process, with their names, lineCost for each
)

// A ledger is what is remembered of a process for whoever adopts it: texts by their names. The zero value is empty.
type ledger struct {
	texts map[string][]byte
	bytes int
}

// remember puts a text in the place of the one with its name; an empty one is forgotten. With an error nothing has changed.
func (l *ledger) remember(name string, text []byte) error {
	before, had := l.texts[name]
	bytes := l.bytes
	if had {
		bytes -= len(before) + len(name) + lineCost
	}
	if len(text) > 0 {
		bytes += len(text) + len(name) + lineCost
	}
	switch {
	case len(name) > maxName:
		return fmt.Errorf("%w: a name has %d bytes, of at most %d", ErrSpec, len(name), maxName)
	case bytes > maxLedger && bytes > l.bytes:
		return fmt.Errorf("%w: %d bytes are remembered of it, of at most %d", ErrMany, l.bytes, maxLedger)
	case len(text) == 0:
		delete(l.texts, name)
	default:
		if l.texts == nil {
			l.texts = make(map[string][]byte)
		}
		l.texts[name] = text
	}
	l.bytes = bytes
	return nil
}

// names returns the names of what is remembered, in their order.
func (l *ledger) names() []string { return slices.Sorted(maps.Keys(l.texts)) }
