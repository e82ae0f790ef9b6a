package kernel

import (
	"errors"
	"log/slog"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"
)

// The kinds of the kernels below.
const (
	some Kind = iota
	other
)

// probe is a behaviour made of functions.
type probe struct {
	on   func(m any)
	fail func(m any, last bool)
}

func (p *probe) Receive(m any) { p.on(m) }
func (p *probe) Failed(m any, last bool) {
	if p.fail != nil {
		p.fail(m, last)
	}
}

func start(k *Kernel, on func(m any)) *Actor {
	c := &Actor{}
	k.Start(c, some, "", &probe{on: on})
	return c
}

func TestOneMessageAtATimeInOrder(t *testing.T) {
	k := New(Config{Kinds: []string{"some", "other"}})
	var running atomic.Int32
	last := map[int]int{}
	c := start(k, func(m any) {
		if running.Add(1) != 1 {
			t.Error("two turns at once")
		}
		x := m.([2]int)
		if x[1] != last[x[0]]+1 {
			t.Errorf("sender %d: message %d after %d", x[0], x[1], last[x[0]])
		}
		last[x[0]] = x[1]
		running.Add(-1)
	})
	var wg sync.WaitGroup
	const senders, each = 8, 2000
	for s := range senders {
		wg.Go(func() {
			for i := 1; i <= each; i++ {
				for c.Post([2]int{s, i}) == ErrOverloaded {
				}
			}
		})
	}
	wg.Wait()
	for c.mustIdle() {
	}
	for s := range senders {
		if last[s] != each {
			t.Errorf("sender %d: %d of %d handled", s, last[s], each)
		}
	}
}

// mustIdle reports whether the actor is still running.
func (c *Actor) mustIdle() bool {
	c.mu.Lock()
	defer c.mu.Unlock()
	return c.running
}

func TestMessagesOfItsOwnWaitForTheTurn(t *testing.T) {
	k := New(Config{Kinds: []string{"some", "other"}})
	var order []string
	var c *Actor
	c = start(k, func(m any) {
		if m == "a" {
			_ = c.Post("b")
			order = append(order, "a done")
			return
		}
		order = append(order, m.(string))
	})
	_ = c.Post("a")
	if len(order) != 2 || order[0] != "a done" || order[1] != "b" {
		t.Errorf("order %v", order)
	}
}

func TestStopRefusesWhatWaits(t *testing.T) {
	k := New(Config{Kinds: []string{"some", "other"}})
	var c *Actor
	refused := make(chan error, 1)
	c = start(k, func(m any) {
		if m == "stop" {
			_ = c.Post(refusal{refused})
			c.Stop()
		}
	})
	_ = c.Post("stop")
	if err := <-refused; !errors.Is(err, ErrStopped) {
		t.Errorf("what waited got %v, want ErrStopped", err)
	}
	if err := c.Post("late"); !errors.Is(err, ErrStopped) {
		t.Errorf("a late message got %v, want ErrStopped", err)
	}
	c.Stop()
	if n := k.Live(some); n != 0 {
		t.Errorf("%d live, want 0", n)
	}
}

type refusal struct{ ch chan error }

func (r refusal) Refused(err error) { r.ch <- err }

// many is a message without a limit on its number.
type many struct{}

func (many) Bulk() bool { return true }

func TestMailboxIsBounded(t *testing.T) {
	k := New(Config{Kinds: []string{"some", "other"}})
	gate, in := make(chan struct{}), make(chan struct{})
	var n atomic.Int32
	c := start(k, func(any) {
		if n.Add(1) == 1 {
			close(in)
			<-gate
		}
	})
	done := make(chan struct{})
	go func() { _ = c.Post(0); close(done) }()
	<-in
	full := 0
	for range mailboxCap + 10 {
		if errors.Is(c.Post(many{}), ErrOverloaded) {
			full++
		}
	}
	if err := c.Post("not bulk"); err != nil {
		t.Errorf("a full mailbox refused a message that is not bulk: %v", err)
	}
	if got := k.Deepest(); got != mailboxCap+1 {
		t.Errorf("the deepest mailbox has had %d messages, want %d", got, mailboxCap+1)
	}
	k.Roll()
	if got := k.Deepest(); got != mailboxCap+1 {
		t.Errorf("after one Roll the deepest mailbox had %d messages", got)
	}
	k.Roll()
	if got := k.Deepest(); got != 0 {
		t.Errorf("after two Rolls the deepest mailbox had %d messages", got)
	}
	close(gate)
	<-done
	if full != 10 {
		t.Errorf("%d refused, want 10", full)
	}
	for c.mustIdle() {
	}
	if n.Load() != mailboxCap+2 {
		t.Errorf("%d handled, want %d", n.Load(), mailboxCap+2)
	}
}

func TestPanicIsContained(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		k := New(Config{Kinds: []string{"some", "other"}})
		var handled, failed, lasts int
		c := &Actor{}
		k.Start(c, other, "", &probe{on: func(m any) {
			if m == "bad" {
				panic("on purpose")
			}
			handled++
		}, fail: func(_ any, last bool) {
			failed++
			if last {
				lasts++
			}
		}})
		for range 2 {
			_ = c.Post("bad")
			_ = c.Post("good")
		}
		time.Sleep(2 * time.Minute)
		for range 2 {
			_ = c.Post("bad")
		}
		if handled != 2 || failed != 4 || lasts != 0 {
			t.Errorf("handled %d, failed %d, last %d; want 2, 4, 0", handled, failed, lasts)
		}
		_ = c.Post("bad")
		if lasts != 1 || !c.Stopped() || k.Live(other) != 0 || k.Panics() != 5 {
			t.Errorf("after the third in a minute: last %d, stopped %v, live %d, panics %d", lasts, c.Stopped(), k.Live(other), k.Panics())
		}
	})
}

// TestKeysAreNotLogged makes an actor panic whose key is a secret.
func TestKeysAreNotLogged(t *testing.T) {
	var log strings.Builder
	k := New(Config{Log: slog.New(slog.NewTextHandler(&log, nil)), Kinds: []string{"some"}})
	c := &Actor{}
	k.Start(c, some, "tenant.s3cret", &probe{on: func(any) { panic("on purpose") }})
	_ = c.Post(1)
	if text := log.String(); !strings.Contains(text, "some#") || strings.Contains(text, "s3cret") {
		t.Errorf("logged:\n%s", text)
	}
}

func BenchmarkPost(b *testing.B) {
	k := New(Config{Kinds: []string{"some", "other"}})
	c := start(k, func(any) {})
	m := &struct{}{}
	b.ReportAllocs()
	for b.Loop() {
		_ = c.Post(m)
	}
}

// BenchmarkStart measures an actor's start and end.
func BenchmarkStart(b *testing.B) {
	k := New(Config{Kinds: []string{"some"}})
	b.ReportAllocs()
	for b.Loop() {
		c := &Actor{}
		k.Start(c, some, "tenant.0123456789abcdef0123456789abcdef", &probe{})
		c.Stop()
	}
}
