package auth

import (
	"context"
	"encoding/json"
	"time"
)

// KeyCache keeps the last good keys of issuers, for processes that start while an issuer is down. Keys are public, but whoever can write there can make tokens: the
// place must be as safe as the configuration. Its methods may be called from several goroutines at once, and not more often than the keys are fetched.
type KeyCache interface {
	// Load returns what was stored last for an issuer, and nil without an error if there is nothing.
	Load(ctx context.Context, issuer string) ([]byte, error)
	// Store replaces it.
	Store(ctx context.Context, issuer string, data []byte) error
}

const cacheTime = 2 * time.Second // for one use of a KeyCache

// record is what a KeyCache has of an issuer.
type record struct {
	Issuer   string        `json:"issuer"`
	From     string        `json:"from,omitempty"` // Issuer.Keys: keys from another place are not those that are meant
	Fetched  time.Time     `json:"fetched"`
	Interval time.Duration `json:"interval"`
	Keys     []byte        `json:"keys"` // as they came
	Metadata []byte        `json:"metadata,omitempty"`
}

// readRecord reads a record, and reports whether it is of this issuer.
func readRecord(data []byte, issuer, from string) (r record, keys []*key, ok bool) {
	if len(data) == 0 || json.Unmarshal(data, &r) != nil || r.Issuer != issuer || r.From != from {
		return r, nil, false
	}
	keys, err := readKeys(r.Keys)
	return r, keys, err == nil
}
