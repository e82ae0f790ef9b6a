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
	if r.tagKey == nil {
		return nil
	}
	h := hmac.New(sha256.New, r.tagKey)
	h.Write(data)
	return h.Sum(nil)[:8]
}

// readTagKey reads the key for tags, or makes it. Without one, as when a newer release has made it
// in another form, the node goes on without tags.
func (r *Keyring) readTagKey(ctx context.Context) error {
	for {
		key, _, err := r.node.Get(ctx, tagRecord)
		switch {
		case err == nil && len(key) == sha256.Size:
			r.tagKey = key
			return nil
		case err == nil, errors.Is(err, ErrNewer), errors.Is(err, ErrDamaged):
			r.node.log.Warn("the key for tags of session ids cannot be used", "error", err)
			return nil
		case !errors.Is(err, ErrNotFound):
			return fmt.Errorf("cluster: the key for tags: %w", err)
		}
		key = make([]byte, sha256.Size)
		_, _ = rand.Read(key) // Never fails.
		if _, err := r.node.Create(ctx, tagRecord, key, 0); err != nil && !errors.Is(err, ErrConflict) {
			return fmt.Errorf("cluster: the key for tags: %w", err)
		}
	}
}
