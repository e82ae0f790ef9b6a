package cluster

import (
	"context"
	"crypto/aes"
	"crypto/cipher"
	"crypto/hmac"
	"crypto/rand"
	"crypto/sha256"
	"encoding/binary"
	"errors"
	"fmt"
	"hash"
	"strconv"
	"strings"
	"sync"
	"sync/atomic"
	"time"

	"github.com/troupe-run/troupe/internal/store"
)

const (
	sealVersion = 1
	sealHeader  = 1 + 8 // version, epoch
	keySize     = 32
	keepOldKeys = 48 * time.Hour
)

// Keyring is the fleet's key ring: all nodes of one store share it. A key seals
// for Options.KeyRotate and opens for another 48 h; then the store forgets it.
type Keyring struct {
	records *Records
	tagKey  atomic.Pointer[[]byte] // see Tag; set at the start, or nil

	mu      sync.Mutex // guards the fields below; not held over I/O
	keys    map[uint64]sealKey
	current uint64          // highest epoch with a key that this release can use; 0: none known
	newer   map[uint64]bool // epochs whose keys a newer release made
	reading *reading        // the read of the ring under way, or nil
	began   time.Time       // when the last read that succeeded began
	tried   time.Time       // when the last read began
}

type sealKey struct {
	aead    cipher.AEAD
	created time.Time
	macs    *sync.Pool // of hash.Hash, for the MAC of letters
}

// newMACPool makes hashes for the MACs of letters. They have a key of their own, made from the key of the ring, so that no key serves two ciphers.
func newMACPool(key []byte) *sync.Pool {
	h := hmac.New(sha256.New, key)
	h.Write([]byte("letters"))
	own := h.Sum(nil)
	return &sync.Pool{New: func() any { return hmac.New(sha256.New, own) }}
}

// withMAC has f use the hash of a key.
func (k *sealKey) withMAC(f func(hash.Hash)) {
	h := k.macs.Get().(hash.Hash)
	defer k.macs.Put(h)
	f(h)
}

// reading is one read of the store, shared by all callers that wait for it.
type reading struct {
	done chan struct{}
	err  error
}

func newKeyring(n *Records) *Keyring { return &Keyring{records: n, keys: map[uint64]sealKey{}} }

// Seal encrypts plain and binds it to aad: Open needs the same aad. It makes or
// renews the key if needed. ErrUnavailable: there is no usable key and the store
// does not answer.
func (r *Keyring) Seal(plain, aad []byte) ([]byte, error) {
	epoch, key, err := r.sealingKey()
	if err != nil {
		return nil, fmt.Errorf("cluster: seal: %w", asUnavailable(err))
	}
	head := binary.BigEndian.AppendUint64(append(make([]byte, 0, sealHeader+key.aead.Overhead()+len(plain)), sealVersion), epoch)
	return key.aead.Seal(head, nil, plain, joinHead(head, aad)), nil
}

// Open decrypts what Seal made on any node. ErrSealed: sealed or aad is wrong.
// ErrUnavailable: this node does not know the key and the ring cannot be read, or
// a newer release made the key (ErrNewer) and its nodes can open it.
func (r *Keyring) Open(sealed, aad []byte) ([]byte, error) {
	if len(sealed) < sealHeader {
		return nil, store.ErrSealed
	}
	head := sealed[:sealHeader]
	epoch := binary.BigEndian.Uint64(head[1:])
	key, ok := r.keyOf(epoch)
	if !ok {
		if err := r.lookForKey(epoch); err != nil {
			return nil, fmt.Errorf("cluster: open: %w", asUnavailable(err))
		}
		key, ok = r.keyOf(epoch)
		if r.isNewer(epoch) {
			return nil, fmt.Errorf("cluster: open: key %d: %w", epoch, store.ErrNewer)
		}
		if !ok {
			return nil, store.ErrSealed
		}
	}
	if sealed[0] != sealVersion {
		return nil, store.ErrSealed
	}
	plain, err := key.aead.Open(nil, nil, sealed[sealHeader:], joinHead(head, aad))
	if err != nil {
		return nil, store.ErrSealed
	}
	return plain, nil
}

// asUnavailable is the error of a ring that cannot be read: whatever the reason, nothing is known of what is sealed.
func asUnavailable(err error) error {
	if errors.Is(err, store.ErrUnavailable) {
		return err
	}
	return fmt.Errorf("%w: %w", store.ErrUnavailable, err)
}

func joinHead(head, aad []byte) []byte {
	return append(append(make([]byte, 0, len(head)+len(aad)), head...), aad...)
}

func (r *Keyring) keyOf(epoch uint64) (sealKey, bool) {
	r.mu.Lock()
	defer r.mu.Unlock()
	k, ok := r.keys[epoch]
	return k, ok && time.Since(k.created) < r.keyLifetime()
}

func (r *Keyring) isNewer(epoch uint64) bool {
	r.mu.Lock()
	defer r.mu.Unlock()
	return r.newer[epoch]
}

// keySettling is how old a key is before a node makes MACs with it, if there is an older one: by then every node that was lately flooded with
// epochs that are made up, and so waits before it reads the ring, has read it since. See waitingLetters.
const keySettling = time.Minute

// signingKey returns the key for the MACs of what is sent now. It does not ask the store.
func (r *Keyring) signingKey() (epoch uint64, key sealKey, ok bool) {
	r.mu.Lock()
	defer r.mu.Unlock()
	for e, k := range r.keys {
		old, better := time.Since(k.created) >= keySettling, time.Since(key.created) >= keySettling
		if !ok || old && (!better || e > epoch) || !old && !better && e > epoch {
			epoch, key, ok = e, k, true
		}
	}
	return epoch, key, ok && time.Since(key.created) < r.keyLifetime()
}

// newestEpoch returns the highest epoch that is known.
func (r *Keyring) newestEpoch() uint64 {
	r.mu.Lock()
	defer r.mu.Unlock()
	return r.current
}

// isKeyDue reports whether the newest key is as old as a key may be that seals, so that the next one should be made.
func (r *Keyring) isKeyDue() bool {
	r.mu.Lock()
	defer r.mu.Unlock()
	return time.Since(r.keys[r.current].created) >= r.records.opts.KeyRotate
}

// lookEvery is the least time between two reads of the ring for epochs that are not known.
const lookEvery = 250 * time.Millisecond

// lookForKey reads the ring for the key of an epoch that is not known, if another node may have made it: epochs rise, so
// one below those that are known is gone, or was never there. However many callers ask, one read runs at a
// time, and the next not before lookEvery: whoever asks meanwhile waits for that one. So epochs that are made up cost
// the store next to nothing, and delay others by a moment after a rotation.
func (r *Keyring) lookForKey(epoch uint64) error {
	asked := time.Now()
	for {
		r.mu.Lock()
		if !r.began.Before(asked) || epoch <= max(r.current, highestEpoch(r.newer)) {
			r.mu.Unlock()
			return nil
		}
		wait := lookEvery - time.Since(r.tried)
		r.mu.Unlock()
		if wait > 0 {
			time.Sleep(wait)
			continue
		}
		if _, err := r.readKeys(false); err != nil {
			return err
		}
	}
}

// keyLifetime returns how long a key can open.
func (r *Keyring) keyLifetime() time.Duration { return r.records.opts.KeyRotate + keepOldKeys }

// sealingKey returns the key to seal with.
func (r *Keyring) sealingKey() (uint64, sealKey, error) {
	start, attempts := time.Now(), 0
	for {
		r.mu.Lock()
		epoch, key := r.current, r.keys[r.current]
		r.mu.Unlock()
		age := time.Since(key.created)
		if epoch != 0 && age < r.records.opts.KeyRotate {
			return epoch, key, nil
		}
		err := fmt.Errorf("%w: no new key", store.ErrUnavailable)
		if attempts < 2 && time.Since(start) < callTimeout {
			var joined bool
			// A joined read may make no key, so it does not count as an attempt.
			if joined, err = r.readKeys(true); !joined {
				attempts++
			}
		}
		// An old key is better than none, as long as the 48 h after it cover the 10
		// minutes that sealed data lives.
		if err != nil && epoch != 0 && age < r.records.opts.KeyRotate+keepOldKeys/2 {
			return epoch, key, nil
		}
		if err != nil {
			return 0, sealKey{}, err
		}
	}
}

// readKeys loads the keys of the store. With renew it first makes a new key if the
// newest one is due. If a read is under way, it joins that one instead, whatever
// the renew of that one is.
func (r *Keyring) readKeys(renew bool) (joined bool, err error) {
	r.mu.Lock()
	f := r.reading
	if f != nil {
		r.mu.Unlock()
		<-f.done
		return true, f.err
	}
	f = &reading{done: make(chan struct{})}
	began := time.Now()
	r.reading, r.tried = f, began
	r.mu.Unlock()

	ctx, cancel := context.WithTimeout(context.Background(), callTimeout)
	defer cancel()
	f.err = r.refreshKeys(ctx, renew)
	r.mu.Lock()
	if r.reading = nil; f.err == nil {
		r.began = began
	}
	r.mu.Unlock()
	close(f.done)
	return false, f.err
}

// restoreKeys makes the ring and the key for tags again, if the store has lost them.
func (r *Keyring) restoreKeys(ctx context.Context) error {
	for joined := true; joined; { // a read that was joined may make no key
		var err error
		if joined, err = r.readKeys(true); err != nil {
			return err
		}
	}
	return r.readTagKey(ctx)
}

func (r *Keyring) refreshKeys(ctx context.Context, renew bool) error {
	keys, newer, err := r.loadKeys(ctx)
	if err != nil {
		return err
	}
	current := highestEpoch(keys)
	if k, ok := keys[current]; renew && (!ok || time.Since(k.created) >= r.records.opts.KeyRotate) {
		if err := r.createKey(ctx, max(current, highestEpoch(newer))); err != nil {
			return err
		}
		if keys, newer, err = r.loadKeys(ctx); err != nil {
			return err
		}
	}
	r.mu.Lock()
	defer r.mu.Unlock()
	r.keys, r.newer, r.current = keys, newer, highestEpoch(keys)
	return nil
}

func highestEpoch[V any](m map[uint64]V) (top uint64) {
	for epoch := range m {
		top = max(top, epoch)
	}
	return top
}

// createKey makes the successor of epoch current. If another node was faster, its
// key serves as well.
func (r *Keyring) createKey(ctx context.Context, current uint64) error {
	// The first epoch is a time, so that no number is used again for another key
	// after all keys have expired.
	next := max(current+1, uint64(time.Now().Unix()))
	if current != 0 {
		next = current + 1
	}
	data := binary.BigEndian.AppendUint64(make([]byte, 0, 8+keySize), uint64(time.Now().Unix()))
	data = data[:8+keySize]
	_, _ = rand.Read(data[8:]) // Never fails.
	_, err := r.records.Create(ctx, "keys."+strconv.FormatUint(next, 10), data, r.keyLifetime())
	if errors.Is(err, store.ErrConflict) {
		return nil
	}
	return err
}

// loadKeys reads all keys from the leader. It skips those of a newer release, which
// may have another layout or another cipher; the others stay usable.
func (r *Keyring) loadKeys(ctx context.Context) (keys map[uint64]sealKey, newer map[uint64]bool, err error) {
	n := r.records
	subjects, err := n.listSubjects(ctx, "keys", "keys.*")
	if err != nil {
		return nil, nil, err
	}
	keys, newer = make(map[uint64]sealKey, len(subjects)), map[uint64]bool{}
	for subject := range subjects {
		epoch, err := strconv.ParseUint(strings.TrimPrefix(subject, n.subjectOf("keys.")), 10, 64)
		if err != nil {
			continue
		}
		data, _, err := n.getRecord(ctx, n.streamName("keys"), subject)
		if errors.Is(err, store.ErrNotFound) {
			continue
		}
		if errors.Is(err, store.ErrNewer) {
			newer[epoch] = true
			continue
		}
		if err != nil {
			return nil, nil, err
		}
		if len(data) != 8+keySize {
			return nil, nil, fmt.Errorf("key %d: %w", epoch, store.ErrDamaged)
		}
		block, err := aes.NewCipher(data[8:])
		if err != nil {
			return nil, nil, err
		}
		aead, err := cipher.NewGCMWithRandomNonce(block)
		if err != nil {
			return nil, nil, err
		}
		keys[epoch] = sealKey{aead, time.Unix(int64(binary.BigEndian.Uint64(data)), 0), newMACPool(data[8:])}
	}
	return keys, newer, nil
}

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
		key, _, err := r.records.Get(ctx, tagRecord)
		switch {
		case err == nil && len(key) == sha256.Size:
			r.tagKey.Store(&key)
			return nil
		case err == nil, errors.Is(err, store.ErrNewer), errors.Is(err, store.ErrDamaged):
			r.records.log.Warn("the key for tags of session ids cannot be used", "error", err)
			return nil
		case !errors.Is(err, store.ErrNotFound):
			return fmt.Errorf("cluster: the key for tags: %w", err)
		}
		if known := r.tagKey.Load(); known != nil { // The store has lost it.
			key = *known
		} else {
			key = make([]byte, sha256.Size)
			_, _ = rand.Read(key) // Never fails.
		}
		if _, err := r.records.Create(ctx, tagRecord, key, 0); err != nil && !errors.Is(err, store.ErrConflict) {
			return fmt.Errorf("cluster: the key for tags: %w", err)
		}
	}
}
