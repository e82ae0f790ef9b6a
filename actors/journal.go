package actors

import (
	"bytes"
	"slices"
	"sync"

	"github.com/troupe-run/troupe/internal/record"
)

// journal is what the earlier runs of a call have sent and asked. A nil journal
// is that of a first run.
type journal struct {
	sent   record.Sent // does not change
	member int         // place of the call in its batch

	mu      sync.Mutex // guards the rest: handlers may ask from several goroutines
	skipped int        // messages of this run that an earlier one has sent
	asked   []*askedBefore
}

// askedBefore is a question of an earlier run.
type askedBefore struct {
	record.Question
	used bool
	open *question // waits for the answer, nil if that is here
}

// answer is what the client has answered.
func (q *askedBefore) answer() Answer {
	if q.Failed {
		return Answer{Err: wireError(q.Answer)}
	}
	return Answer{Result: bytes.Clone(q.Answer)}
}

func newJournal(p *record.Past, member int) *journal {
	j := &journal{sent: p.Sents.Of(member), member: member}
	for _, q := range p.Digest.Asked {
		if q.Member == member {
			j.asked = append(j.asked, &askedBefore{Question: q})
		}
	}
	return j
}

// skipMessage reports that an earlier run has sent this message.
func (j *journal) skipMessage() bool {
	j.mu.Lock()
	defer j.mu.Unlock()
	if j.skipped == j.sent.Messages {
		return false
	}
	j.skipped++
	return true
}

// has reports whether an earlier run has asked this use of a key, and this one has not.
func (j *journal) has(key string, use int) bool {
	if j == nil {
		return false
	}
	j.mu.Lock()
	defer j.mu.Unlock()
	return slices.ContainsFunc(j.asked, func(q *askedBefore) bool { return q.Key == key && q.Use == use && !q.used })
}

// question returns what an earlier run asked as this use of a key, nil if it did not.
func (j *journal) question(key string, use int) *askedBefore {
	if j == nil {
		return nil
	}
	j.mu.Lock()
	defer j.mu.Unlock()
	for _, q := range j.asked {
		if q.Key == key && q.Use == use && !q.used {
			q.used = true
			return q
		}
	}
	return nil
}

// uses counts how often a call has asked with each key. The zero value has counted
// nothing.
type uses struct {
	mu sync.Mutex // guards n
	n  map[string]int
}

// next numbers a question when it is asked: a second run that asks in the same order
// comes to the same numbers, whatever of the first one is still in the log.
func (u *uses) next(key string) int {
	u.mu.Lock()
	defer u.mu.Unlock()
	if u.n == nil {
		u.n = make(map[string]int)
	}
	u.n[key]++
	return u.n[key]
}
