package cluster

import (
	"fmt"
	"log/slog"
	"time"

	"github.com/troupe-run/troupe/internal/limits"
)

// Options configures a Node. The zero value is a node in memory.
type Options struct {
	// Dir is the data directory, created if missing (mode 0700). "" keeps
	// everything in memory.
	Dir string
	// MaxStore is the byte budget of everything stored. A write that exceeds it is
	// refused with ErrFull. 0 means 8 GiB with a Dir and 1 GiB without; below 1
	// MiB is an error.
	MaxStore int64
	// Sync is how often the file store is flushed to the disk: a power cut may
	// cost the writes of that time. 0 means every second. A negative value
	// acknowledges a write, other than of leases, only once it is on the disk; one
	// flush serves all writes that wait for it.
	Sync time.Duration
	// Node names this node: [a-z0-9-]{1,32}. "" takes the name kept in Dir, which
	// is made up once, or in memory a random one.
	Node string
	// Lease is how long others wait for a silent node before they take over.
	// 0 means 5 s; rounded up to seconds, at least 1 s.
	Lease time.Duration
	// Prefix goes in front of subjects and stream names: [a-z0-9-]{1,32}. "" is none.
	Prefix string
	// ReplayAge is the lifetime of an append. 0 means 10 min; rounded up to seconds.
	ReplayAge time.Duration
	// KeyRotate is how long one key of the ring seals. 0 means 24 h. A key still
	// opens for 48 h after its successor came.
	KeyRotate time.Duration
	// Log gets events of the node and what the embedded server logs. Nil discards.
	Log *slog.Logger
}

const (
	minStore         = 1 << 20
	defaultReplayAge = 10 * time.Minute
	defaultSync      = time.Second
	defaultKeyRotate = 24 * time.Hour
)

// complete fills in the defaults and refuses invalid values.
func (o *Options) complete() error {
	if o.MaxStore == 0 {
		o.MaxStore = limits.StoreInMemory
		if o.Dir != "" {
			o.MaxStore = limits.StoreOnDisk
		}
	}
	if o.MaxStore < minStore {
		return fmt.Errorf("cluster: store limit of %d bytes: at least %d are needed", o.MaxStore, minStore)
	}
	for _, d := range []struct {
		what  string
		value *time.Duration
		zero  time.Duration
	}{{"lease", &o.Lease, limits.Lease.Value()}, {"replay age", &o.ReplayAge, defaultReplayAge}, {"key rotation", &o.KeyRotate, defaultKeyRotate}} {
		if *d.value == 0 {
			*d.value = d.zero
		}
		if *d.value < 0 {
			return fmt.Errorf("cluster: negative %s %v", d.what, *d.value)
		}
		*d.value = wholeSeconds(*d.value)
	}
	if o.Node != "" && !validName(o.Node) {
		return fmt.Errorf("cluster: node name %q: must be 1 to 32 of a-z, 0-9 and -", o.Node)
	}
	if o.Prefix != "" && !validName(o.Prefix) {
		return fmt.Errorf("cluster: prefix %q: must be 1 to 32 of a-z, 0-9 and -", o.Prefix)
	}
	if o.Log == nil {
		o.Log = slog.New(slog.DiscardHandler)
	}
	return nil
}

// wholeSeconds rounds up, since NATS counts lifetimes in seconds.
func wholeSeconds(d time.Duration) time.Duration {
	return (d + time.Second - 1) / time.Second * time.Second
}

func validName(s string) bool {
	if len(s) == 0 || len(s) > 32 {
		return false
	}
	for i := range len(s) {
		c := s[i]
		if (c < 'a' || c > 'z') && (c < '0' || c > '9') && c != '-' {
			return false
		}
	}
	return true
}

// validTokens reports whether s is n tokens of [A-Za-z0-9_-] joined by dots. Any
// other key could reach beyond its owner's subjects.
func validTokens(s string, n int) bool {
	if len(s) > 200 {
		return false
	}
	tokens, size := 1, 0
	for i := range len(s) {
		switch c := s[i]; {
		case c == '.':
			if size == 0 {
				return false
			}
			tokens, size = tokens+1, 0
		case c >= 'a' && c <= 'z', c >= 'A' && c <= 'Z', c >= '0' && c <= '9', c == '-', c == '_':
			size++
		default:
			return false
		}
	}
	return tokens == n && size > 0
}
