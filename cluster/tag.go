package cluster

import (
	"context"
	"crypto/hmac"
	"crypto/rand"
	"crypto/sha256"
	"errors"
	"fmt"
)

// tagRecord is the record of the key for tags. Like the store that it belongs to, it has no end.
const tagRecord = "keys.tag"

// Tag returns a short code that only nodes of this store can make for data, in 8 bytes. It does not
// read the store. It is nil if the node has no key for it.
func (r *Keyring) Tag(data []byte) []byte {
	key := r.tagKey.Load()
	if key == nil {
		return nil
	}
	h := hmac.New(sha256.New, *key)
	h.Write(data)
	return h.Sum(nil)[:8]
}

// readTagKey reads the key for tags, or makes it, or stores again the one that is known. Without one, as when a newer release has made it
// in another form, the node goes on without tags.
func (r *Keyring) readTagKey(ctx context.Context) error {
	for {
		key, _, err := r.node.Get(ctx, tagRecord)
		switch {
		case err == nil && len(key) == sha256.Size:
			r.tagKey.Store(&key)
			return nil
		case err == nil, errors.Is(err, ErrNewer), errors.Is(err, ErrDamaged):
			r.node.log.Warn("the key for tags of session ids cannot be used", "error", err)
			return nil
		case !errors.Is(err, ErrNotFound):
			return fmt.Errorf("cluster: the key for tags: %w", err)
		}
		if known := r.tagKey.Load(); known != nil { // The store has lost it.
			key = *known
		} else {
			key = make([]byte, sha256.Size)
			_, _ = rand.Read(key) // Never fails.
		}
		if _, err := r.node.Create(ctx, tagRecord, key, 0); err != nil && !errors.Is(err, ErrConflict) {
			return fmt.Errorf("cluster: the key for tags: %w", err)
		}
	}
}
