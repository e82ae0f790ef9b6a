package auth

import (
	"crypto/sha256"
	"log/slog"
	"sync"
	"sync/atomic"
	"time"
)

// maxVerdicts is how many verdicts an Authority keeps.
const maxVerdicts = 32 << 10

// Verdict is what an Authority has found about a token: whose it is. But for Memo it must not be changed. It does not hold the token.
type Verdict struct {
	Identity
	ends      time.Time     // the first moment at which it does not hold
	key       *key          // nil if the issuer was asked about the token
	goodUntil *atomic.Int64 // issuer.goodUntil
	refused   *Refusal      // of a token that the issuer does not know
	found     *keyEntry     // of an API key, nil for a token
	name      string        // of an API key

	// Memo keeps what the caller has made of the verdict, so that it is made once and not with each request. The Authority does not look at it.
	Memo atomic.Value
}

// Valid reports whether the verdict still holds: the token has not ended, the issuer still has the key, and it can be reached or could a while ago. A connection that remembers
// its last token, and the verdict about it, needs nothing else. The verdict about an API key, or an opaque token, holds for a short while, and then has to be asked for again, which may return the same.
// Valid takes a few nanoseconds. A nil Verdict holds never.
func (v *Verdict) Valid(now time.Time) bool {
	return v != nil && now.Before(v.ends) && (v.key == nil || !v.key.gone.Load() && now.UnixNano() < v.goodUntil.Load()) && (v.found == nil || v.found.isFresh(v, now))
}

// whose is that of the Identity, with the name of an API key.
func (v *Verdict) whose() []slog.Attr {
	if v.found == nil {
		return v.Whose()
	}
	return []slog.Attr{keyAttr(v.Subject, slog.String("name", v.name))}
}

// verdictKey stands for a token at a server, by its SHA-256: tokens are not kept.
type verdictKey struct {
	token    [sha256.Size]byte
	resource string
}

// halves are the values that were used last. Those that are used move from the old half to the new one, and when that is full the rest of the old half is forgotten.
type halves[K comparable, V any] struct {
	half     int
	new, old map[K]V
}

func newHalves[K comparable, V any](n int) halves[K, V] {
	return halves[K, V]{half: max(n/2, 1), new: make(map[K]V)}
}

// useValue returns a value, which counts as used then.
func (t *halves[K, V]) useValue(k K) (v V, ok bool) {
	if v, ok = t.new[k]; ok {
		return v, true
	}
	if v, ok = t.old[k]; ok {
		delete(t.old, k)
		t.putValue(k, v)
	}
	return v, ok
}

func (t *halves[K, V]) putValue(k K, v V) {
	if len(t.new) >= t.half {
		t.old, t.new = t.new, make(map[K]V)
	}
	t.new[k] = v
}

func (t *halves[K, V]) dropValue(k K) {
	delete(t.new, k)
	delete(t.old, k)
}

// verdicts are those about the tokens that came last.
type verdicts struct {
	mu  sync.Mutex // guards all
	all halves[verdictKey, *Verdict]
}

func newVerdicts(n int) *verdicts { return &verdicts{all: newHalves[verdictKey, *Verdict](n)} }

// findVerdict returns the verdict if it holds. again says that the issuer must be asked again about an opaque token, which counted when it was asked last, and has not ended.
func (t *verdicts) findVerdict(k verdictKey, now time.Time) (v *Verdict, again bool) {
	t.mu.Lock()
	defer t.mu.Unlock()
	v, ok := t.all.useValue(k)
	if !ok || v.Valid(now) {
		return v, false
	}
	if again = v.key == nil && v.refused == nil && now.Before(v.Ends()); !again {
		t.all.dropValue(k)
	}
	return nil, again
}

func (t *verdicts) addVerdict(k verdictKey, v *Verdict) {
	t.mu.Lock()
	defer t.mu.Unlock()
	t.all.putValue(k, v)
}
