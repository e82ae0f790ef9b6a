package cluster

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"testing"
	"testing/synctest"
	"time"

	"github.com/troupe-run/troupe/internal/bubble"
	"github.com/troupe-run/troupe/internal/store"
	"github.com/troupe-run/troupe/test/kit/when"
	"github.com/troupe-run/troupe/test/sim"
)

// TestModel checks that the model of the store, on which tests of other packages rely,
// answers every operation as the store does; only the numbers of revisions differ.
func TestModel(t *testing.T) {
	when.Unraced(t, "half a minute of virtual time under the race detector")
	t.Parallel()
	seeds, steps := uint64(3), 1000
	if testing.Short() {
		seeds, steps = 1, 300
	}
	for seed := range seeds {
		t.Run(fmt.Sprint(seed), func(t *testing.T) {
			bubble.OneAtATime(t)
			synctest.Test(t, func(t *testing.T) {
				t.Cleanup(func() { time.Sleep(time.Minute) }) // the server's last goroutines
				const age = 25 * time.Second
				m := &modelled{t: t, r: rand.New(rand.NewPCG(seed, 1)), node: open(t, Options{EventAge: age, Shards: int(seed%2)*3 + 1}), revs: map[uint64]uint64{}}
				m.link = sim.NewLink(sim.New(age), 5*time.Second, func(string) sim.Fate { return sim.Fate{} })
				for range steps {
					if m.step(); t.Failed() {
						return
					}
				}
			})
		})
	}
}

// modelled is a store and its model.
type modelled struct {
	t     *testing.T
	r     *rand.Rand
	node  *Node
	link  *sim.Link
	revs  map[uint64]uint64 // revisions of the store, by those of the model
	recs  []uint64          // revisions that the model gave for records
	opens []uint64          // and for streams: the real store counts them separately
	tail  uint64
}

// alike fails the test unless both errors mean the same.
func (m *modelled) alike(what string, got, want error) bool {
	m.t.Helper()
	for _, which := range []error{store.ErrNotFound, store.ErrConflict, store.ErrFenced} {
		if errors.Is(got, which) != errors.Is(want, which) {
			m.t.Errorf("%s: the store says %v, the model %v", what, got, want)
			return false
		}
	}
	if (got == nil) != (want == nil) {
		m.t.Errorf("%s: the store says %v, the model %v", what, got, want)
	}
	return got == nil && want == nil
}

// knows notes that both gave the same revision.
func (m *modelled) knows(given *[]uint64, real, model uint64) {
	m.revs[model] = real
	*given = append(*given, model)
}

// rev draws an earlier revision, mostly a late one.
func (m *modelled) rev(given []uint64) uint64 {
	if len(given) == 0 || m.r.IntN(20) == 0 {
		return 0
	}
	if m.r.IntN(4) > 0 {
		return given[len(given)-1]
	}
	return given[m.r.IntN(len(given))]
}

func (m *modelled) step() {
	ctx, r := context.Background(), m.r
	ttl := time.Duration(5+10*r.IntN(3)) * time.Second
	data := []byte(fmt.Sprint("data", r.IntN(1000)))
	switch key := fmt.Sprintf("session.anon.demo.s%d", r.IntN(2)); r.IntN(13) {
	case 0:
		got, rev, err := m.node.Get(ctx, key)
		want, model, err2 := m.link.Get(ctx, key)
		if m.alike("get", err, err2) && (!bytes.Equal(got, want) || m.revs[model] != rev) {
			m.t.Errorf("get: the store has %q at %d, the model %q at %d", got, rev, want, m.revs[model])
		}
	case 1:
		rev, err := m.node.Create(ctx, key, data, ttl)
		model, err2 := m.link.Create(ctx, key, data, ttl)
		if m.alike("create", err, err2) {
			m.knows(&m.recs, rev, model)
		}
	case 2:
		old := m.rev(m.recs)
		rev, err := m.node.Update(ctx, key, data, m.revs[old], ttl)
		model, err2 := m.link.Update(ctx, key, data, old, ttl)
		if m.alike("update", err, err2) {
			m.knows(&m.recs, rev, model)
		}
	case 3:
		old := m.rev(m.recs)
		m.alike("delete", m.node.Delete(ctx, key, m.revs[old]), m.link.Delete(ctx, key, old))
	case 4:
		var body []byte
		if r.IntN(2) == 0 {
			body = bytes.Repeat(data, 100)
		}
		rev, err := m.node.OpenStream(ctx, testStream, data, body, ttl)
		model, err2 := m.link.OpenStream(ctx, testStream, data, body, ttl)
		if m.alike("open", err, err2) {
			m.knows(&m.opens, rev, model)
		}
	case 5:
		got, rev, err := m.node.Writer(ctx, testStream)
		want, model, err2 := m.link.Writer(ctx, testStream)
		if m.alike("writer", err, err2) && (!bytes.Equal(got, want) || m.revs[model] != rev) {
			m.t.Errorf("writer: the store has %q at %d, the model %q at %d", got, rev, want, m.revs[model])
		}
	case 6:
		got, err := m.node.Body(ctx, testStream)
		want, err2 := m.link.Body(ctx, testStream)
		if m.alike("body", err, err2) && !bytes.Equal(got, want) {
			m.t.Errorf("body: the store has %q, the model %q", got, want)
		}
	case 7:
		old := m.rev(m.opens)
		if r.IntN(3) == 0 {
			var body []byte
			if r.IntN(2) == 0 {
				body = bytes.Repeat(data, 100)
			}
			m.alike("keep", m.node.KeepBody(ctx, testStream, body, m.revs[old], ttl), m.link.KeepBody(ctx, testStream, body, old, ttl))
			break
		}
		rev, err := m.node.Rewrite(ctx, testStream, data, m.revs[old], ttl)
		model, err2 := m.link.Rewrite(ctx, testStream, data, old, ttl)
		if m.alike("rewrite", err, err2) {
			m.knows(&m.opens, rev, model)
		}
	case 8:
		m.appends(data)
	case 9:
		m.reads()
	case 10:
		hint := m.tail
		if hint > 0 {
			hint = r.Uint64N(hint + 1)
		}
		got, err := m.node.Tail(ctx, testStream, hint)
		want, err2 := m.link.Tail(ctx, testStream, hint)
		if m.alike("tail", err, err2) && got != want {
			m.t.Errorf("tail from %d: the store says %d, the model %d", hint, got, want)
		}
	case 11:
		if r.IntN(8) == 0 {
			m.alike("end", m.node.EndStream(ctx, testStream), m.link.EndStream(ctx, testStream))
			m.tail = 0
		}
	case 12:
		// The store notices some time later what has expired: here nothing expires just
		// before an operation reads it.
		time.Sleep(time.Duration(1+r.IntN(2)) * 10 * time.Second)
	}
}

// appends stores some appends, or overwrites one with nothing.
func (m *modelled) appends(data []byte) {
	old, n := m.rev(m.opens), 1
	if m.r.IntN(10) == 0 {
		n = 900
	}
	for range n {
		num, what := m.tail+1, data
		if m.r.IntN(5) == 0 && m.tail > 0 {
			num, what = max(1, m.tail-m.r.Uint64N(min(m.tail, 30))), nil
		}
		done := make(chan error, 1)
		m.link.Append(testStream, old, num, what, func(err error) { done <- err })
		if !m.alike("append", appendWait(m.node, testStream, m.revs[old], num, what), <-done) {
			return
		}
		m.tail = max(m.tail, num)
	}
}

func (m *modelled) reads() {
	from := 1 + m.r.Uint64N(m.tail+1)
	to := from + m.r.Uint64N(m.tail+2)
	if to > m.tail {
		to = m.tail
	}
	got, err := readEvents(context.Background(), m.node, testStream, from, to)
	var want []event
	err2 := m.link.Read(context.Background(), testStream, from, to, func(num uint64, data []byte) { want = append(want, event{num, data}) })
	if !m.alike("read", err, err2) {
		return
	}
	same := len(got) == len(want)
	for i := range got {
		same = same && got[i].Num == want[i].Num && bytes.Equal(got[i].Data, want[i].Data)
	}
	if !same {
		m.t.Errorf("read %d..%d: the store has %d appends, the model %d", from, to, len(got), len(want))
	}
}
