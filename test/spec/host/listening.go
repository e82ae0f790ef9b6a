package host

import (
	"slices"
	"sync"
	"testing/synctest"

	"github.com/troupe-run/troupe/test/kit"
)

// Listening is a stream that a goroutine reads while the test does other things.
type Listening struct {
	*kit.Answer

	mu    sync.Mutex // guards the rest
	got   []string
	ended bool
}

// Listen reads a stream in the background.
func Listen(a *kit.Answer) *Listening {
	l := &Listening{Answer: a}
	go func() {
		for e, ok := a.Next(); ok; e, ok = a.Next() {
			if e.Data != "" {
				l.mu.Lock()
				l.got = append(l.got, e.Data)
				l.mu.Unlock()
			}
		}
		l.mu.Lock()
		l.ended = true
		l.mu.Unlock()
	}()
	return l
}

// Now returns the messages so far, once all those under way have come.
func (l *Listening) Now() (got []string, ended bool) {
	synctest.Wait()
	l.mu.Lock()
	defer l.mu.Unlock()
	return slices.Clone(l.got), l.ended
}

// Since returns the messages after the first n.
func (l *Listening) Since(n int) []string {
	got, _ := l.Now()
	return got[min(n, len(got)):]
}
