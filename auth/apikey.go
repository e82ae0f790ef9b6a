package auth

import (
	"context"
	"crypto/rand"
	"crypto/sha256"
	"errors"
	"fmt"
	"hash/crc32"
	"io"
	"log/slog"
	"strings"
	"time"
)

// APIKeyPrefix begins every API key. A token that begins so is one for a [Config] with APIKeys, and nothing else.
const APIKeyPrefix = "trp_"

// KeyIssuer is the [Identity].Issuer of every API key.
const KeyIssuer = "troupe:keys"

// An API key is the prefix, 43 characters of base62 that are random, and 6 that are their checksum: the CRC-32 (IEEE) of all before it, in base62 with the highest digit first.
// So a scanner finds one by trp_[0-9A-Za-z]{49}, and tells it from what only looks like one, as this package does before it asks a [KeyStore].
const (
	base62       = "0123456789ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz"
	keyRandom    = 43 // of 62 characters: 256 bits
	keyChecksum  = 6  // of 62 characters: 35 bits, of which 32 are used
	apiKeyLength = len(APIKeyPrefix) + keyRandom + keyChecksum
)

// KeyDigest is the SHA-256 of an API key: what is stored of it.
type KeyDigest [sha256.Size]byte

// NewAPIKey makes an API key of 256 bits from random, which is crypto/rand.Reader if it is nil.
func NewAPIKey(random io.Reader) (string, error) {
	if random == nil {
		random = rand.Reader
	}
	key := append(make([]byte, 0, apiKeyLength), APIKeyPrefix...)
	var some [64]byte
	for len(key) < apiKeyLength-keyChecksum {
		if _, err := io.ReadFull(random, some[:]); err != nil {
			return "", fmt.Errorf("auth: a new API key: %w", err)
		}
		for _, b := range some {
			if b &= 63; int(b) < len(base62) && len(key) < apiKeyLength-keyChecksum { // each character is as likely as any other
				key = append(key, base62[b])
			}
		}
	}
	sum := computeChecksum(key)
	return string(append(key, sum[:]...)), nil
}

// computeChecksum is that of an API key without its last characters.
func computeChecksum(key []byte) (sum [keyChecksum]byte) {
	rest := crc32.ChecksumIEEE(key)
	for i := range sum {
		sum[len(sum)-1-i] = base62[rest%uint32(len(base62))]
		rest /= uint32(len(base62))
	}
	return sum
}

// DigestAPIKey returns the digest of an API key. It is false for a text that [NewAPIKey] cannot have made.
func DigestAPIKey(key string) (KeyDigest, bool) {
	if len(key) != apiKeyLength || !strings.HasPrefix(key, APIKeyPrefix) {
		return KeyDigest{}, false
	}
	for i := len(APIKeyPrefix); i < len(key); i++ {
		if strings.IndexByte(base62, key[i]) < 0 {
			return KeyDigest{}, false
		}
	}
	sum := computeChecksum(bytesOf(key[:apiKeyLength-keyChecksum]))
	if key[apiKeyLength-keyChecksum:] != string(sum[:]) {
		return KeyDigest{}, false
	}
	return sha256.Sum256(bytesOf(key)), true
}

// APIKey is what is known of an API key. It must not be changed once a [KeyStore] has returned it.
type APIKey struct {
	// ID is the [Identity].Subject: the same for all that come out of one key by rotation, and never another key's.
	ID string
	// Name is for people.
	Name string
	// Scopes are those that the key has, without those that they imply.
	Scopes []string
	// Servers are the servers that the key is for, by their ids or paths. Empty means all.
	Servers []string
	// Created is when the key was made, or rotated last.
	Created time.Time
	// Expires is the first moment at which the key does not count, the zero time if there is none. No leeway is added.
	Expires time.Time
	// Revoked is when the key was revoked, the zero time if it was not.
	Revoked time.Time
	// Used is the day, in UTC, on which the key was last used as far as that was noted, the zero time if it was not.
	Used time.Time
}

// ErrNoKey is the error of a [KeyStore] that has no such key.
var ErrNoKey = errors.New("auth: there is no such API key")

// KeyStore finds API keys. An [Authority] asks about each key that comes, at most once a second while it comes, and at most 64 times at once: so what is changed there counts
// within 2 seconds. While the store returns errors, keys that the Authority has found count as they did.
type KeyStore interface {
	// Find returns the key with a digest. [ErrNoKey]: there is none. With any other error nobody knows.
	Find(ctx context.Context, d KeyDigest) (*APIKey, error)
}

// KeyUses may be implemented by a [KeyStore] that notes when keys were last used.
type KeyUses interface {
	// Used notes that a key was used on a day, in UTC. It is called after the key was found, if [APIKey].Used is an earlier day, and again a minute later at the earliest if that fails.
	Used(ctx context.Context, d KeyDigest, day time.Time) error
}

// StoredKeys stands in [Config].APIKeys for the keys in the store of the program's runtime, which puts those in its place. It finds nothing by itself.
var StoredKeys KeyStore = storedKeys{}

type storedKeys struct{}

func (storedKeys) Find(context.Context, KeyDigest) (*APIKey, error) {
	return nil, errors.New("auth: StoredKeys is a placeholder, and no runtime has replaced it")
}

// refuseKey is the refusal of an API key that there is.
func refuseKey(why Reason, id, name string, detail ...any) *Refusal {
	r := invalidToken(why)
	r.Known = []slog.Attr{keyAttr(id, append([]any{slog.String("name", name)}, detail...)...)}
	return r
}

// keyAttr is an API key in a log.
func keyAttr(id string, more ...any) slog.Attr {
	return slog.Group("key", append([]any{slog.Any("id", openID(id))}, more...)...)
}
