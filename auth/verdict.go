package auth

import (
	"crypto/sha256"
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

	// Memo keeps what the caller has made of the verdict, so that it is made once and not with each request. The Authority does not look at it.
	Memo atomic.Value
}

// Valid reports whether the verdict still holds: the token has not ended, the issuer still has the key, and it can be reached or could a while ago. A connection that remembers
// its last token, and the verdict about it, needs nothing else. Valid takes a few nanoseconds. A nil Verdict holds never.
func (v *Verdict) Valid(now time.Time) bool {
	return v != nil && now.Before(v.ends) && (v.key == nil || !v.key.gone.Load() && now.UnixNano() < v.goodUntil.Load())
}

// verdictKey stands for a token at a server, by its SHA-256: tokens are not kept.
type verdictKey struct {
	token    [sha256.Size]byte
	resource string
}

// verdicts are those about the tokens that came last. Those that are used move from the old half to the new one, and when that is full the rest of the old half is forgotten.
type verdicts struct {
	half int

	mu       sync.Mutex // guards both
	new, old map[verdictKey]*Verdict
}

func newVerdicts(n int) *verdicts {
	return &verdicts{half: max(n/2, 1), new: make(map[verdictKey]*Verdict)}
}

// find returns the verdict if it holds.
func (t *verdicts) find(k verdictKey, now time.Time) *Verdict {
	t.mu.Lock()
	defer t.mu.Unlock()
	v, ok := t.new[k]
	if !ok {
		if v, ok = t.old[k]; !ok {
			return nil
		}
		delete(t.old, k)
		if v.Valid(now) {
			t.put(k, v)
		}
	}
	if !v.Valid(now) {
		delete(t.new, k)
		return nil
	}
	return v
}

func (t *verdicts) add(k verdictKey, v *Verdict) {
	t.mu.Lock()
	defer t.mu.Unlock()
	t.put(k, v)
}

func (t *verdicts) put(k verdictKey, v *Verdict) {
	if len(t.new) >= t.half {
		t.old, t.new = t.new, make(map[verdictKey]*Verdict)
	}
	t.new[k] = v
}

// sweep forgets the verdicts that do not hold.
func (t *verdicts) sweep(now time.Time) {
	t.mu.Lock()
	defer t.mu.Unlock()
	for _, m := range []map[verdictKey]*Verdict{t.new, t.old} {
		for k, v := range m {
			if !v.Valid(now) {
				delete(m, k)
			}
		}
	}
}
