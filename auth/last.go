package auth

import (
	"context"
	"crypto/subtle"
	"sync/atomic"
	"time"
	"unsafe"
)

// Last remembers the last token of a connection, and the verdict about it: most connections have one token for as long as that lasts, and then a request costs no more than a
// comparison. The zero value remembers nothing. A Last belongs to one connection, and must be forgotten with it, as it holds the token. Its method is safe for concurrent use. A nil Last is one that remembers nothing.
type Last struct{ p atomic.Pointer[lastToken] }

type lastToken struct {
	authority       *Authority
	token, resource string
	verdict         *Verdict
}

// Verify is that of the Authority. It allocates nothing if the token is the last one.
func (l *Last) Verify(ctx context.Context, a *Authority, token, resource string) (*Verdict, error) {
	if v := l.findVerdict(a, token, resource); v != nil {
		return v, nil
	}
	v, r := a.verifyToken(ctx, token, resource)
	if r != nil {
		return nil, r
	}
	l.keepVerdict(a, token, resource, v)
	return v, nil
}

// isOf reports whether t is of a token at a server.
func (t *lastToken) isOf(a *Authority, token, resource string) bool {
	return t != nil && t.authority == a && t.resource == resource && equalTokens(t.token, token)
}

// findVerdict returns the verdict about the last token, nil if that is another one or the verdict does not hold.
func (l *Last) findVerdict(a *Authority, token, resource string) *Verdict {
	if l == nil {
		return nil
	}
	if t := l.p.Load(); t.isOf(a, token, resource) && t.verdict.Valid(time.Now()) {
		return t.verdict
	}
	return nil
}

// keepVerdict notes the verdict about a token, which is the last one.
func (l *Last) keepVerdict(a *Authority, token, resource string, v *Verdict) {
	if l == nil {
		return
	}
	if t := l.p.Load(); t == nil || t.verdict != v || !t.isOf(a, token, resource) {
		l.p.Store(&lastToken{a, token, resource, v})
	}
}

// equalTokens compares in constant time: others may send requests over the same connection to a proxy. It is over at once where both are the same bytes in memory, as with headers that requests of a
// connection share.
func equalTokens(a, b string) bool {
	return len(a) == len(b) && (unsafe.StringData(a) == unsafe.StringData(b) || subtle.ConstantTimeCompare(bytesOf(a), bytesOf(b)) == 1)
}

// bytesOf returns the bytes of a string without a copy. They must not be changed.
func bytesOf(s string) []byte { return unsafe.Slice(unsafe.StringData(s), len(s)) }
