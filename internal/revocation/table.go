package revocation

import (
	"errors"
	"net/http"
	"slices"
	"time"

	"github.com/troupe-run/troupe/auth"
)

// entry is a revocation that is known. It does not change.
type entry struct {
	Revocation
	rev   uint64
	noted time.Time // when this process has made it, the zero time if another one has
}

// table has the revocations by whom they are about. It does not change.
type table struct {
	subjects, clients map[string][]*Revocation
	notRead           bool // nobody knows yet which there are
}

// newTable returns the table of revocations, nil for none.
func newTable(all map[string]*entry) *table {
	if len(all) == 0 {
		return nil
	}
	t := &table{subjects: make(map[string][]*Revocation), clients: make(map[string][]*Revocation)}
	for _, e := range all {
		if e.Subject != "" {
			t.subjects[e.Subject] = append(t.subjects[e.Subject], &e.Revocation)
		} else {
			t.clients[e.Client] = append(t.clients[e.Client], &e.Revocation)
		}
	}
	return t
}

// find returns a revocation that refuses a token, nil if none does.
func (t *table) find(id *auth.Identity, now time.Time) *Revocation {
	for _, r := range t.subjects[id.Subject] {
		if r.refuses(id, now) {
			return r
		}
	}
	for _, r := range t.clients[id.Client] {
		if r.refuses(id, now) {
			return r
		}
	}
	return nil
}

// Match are revocations, for finding those whom they are about.
type Match []Revocation

// IsAbout reports whether one of them is about a principal.
func (m Match) IsAbout(issuer, subject, client string) bool {
	return slices.ContainsFunc(m, func(r Revocation) bool {
		return (r.Issuer == "" || r.Issuer == issuer) && (r.Subject == "" || r.Subject == subject) && (r.Client == "" || r.Client == client)
	})
}

// errNotRead is the error of a node that has not read the revocations yet.
var errNotRead = errors.New("the revocations were not read yet")

// unavailableRefusal is what the client of a token is told while nobody knows which revocations there are.
func unavailableRefusal() *auth.Refusal {
	return &auth.Refusal{Status: http.StatusServiceUnavailable, Reason: auth.ReasonUnavailable, Text: auth.TextUnavailable, RetryAfter: time.Second, Err: errNotRead}
}
