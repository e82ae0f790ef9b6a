package actors

import (
	"context"
	"errors"
	"sync"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/asynkron/protoactor-go/actor"
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

func (p *probe) receive(m any) { p.on(m) }
func (p *probe) failed(m any, last bool) {
	if p.fail != nil {
		p.fail(m, last)
	}
}

func start(k *Kernel, on func(m any)) *cell {
	c := &cell{}
	k.start(c, some, &probe{on: on})
	return c
}

func TestOneMessageAtATimeInOrder(t *testing.T) {
	k := NewKernel(nil, "some", "other")
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
				for c.post([2]int{s, i}) == ErrOverloaded {
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

// mustIdle reports whether the actor is still at work.
func (c *cell) mustIdle() bool {
	c.mu.Lock()
	defer c.mu.Unlock()
	return c.running
}

func TestMessagesOfItsOwnWaitForTheTurn(t *testing.T) {
	k := NewKernel(nil, "some", "other")
	var order []string
	var c *cell
	c = start(k, func(m any) {
		if m == "a" {
			_ = c.post("b")
			order = append(order, "a done")
			return
		}
		order = append(order, m.(string))
	})
	_ = c.post("a")
	if len(order) != 2 || order[0] != "a done" || order[1] != "b" {
		t.Errorf("order %v", order)
	}
}

func TestStopRefusesWhatWaits(t *testing.T) {
	k := NewKernel(nil, "some", "other")
	var c *cell
	refused := make(chan error, 1)
	c = start(k, func(m any) {
		if m == "stop" {
			_ = c.post(refusal{refused})
			c.stop()
		}
	})
	_ = c.post("stop")
	if err := <-refused; !errors.Is(err, ErrStopped) {
		t.Errorf("what waited got %v, want ErrStopped", err)
	}
	if err := c.post("late"); !errors.Is(err, ErrStopped) {
		t.Errorf("a late message got %v, want ErrStopped", err)
	}
	c.stop()
	if n := k.Live(some); n != 0 {
		t.Errorf("%d live, want 0", n)
	}
}

type refusal struct{ ch chan error }

func (r refusal) refused(err error) { r.ch <- err }

// many is a message of which there may be any number.
type many struct{}

func (many) bulk() bool { return true }

func TestMailboxIsBounded(t *testing.T) {
	k := NewKernel(nil, "some", "other")
	gate, in := make(chan struct{}), make(chan struct{})
	var n atomic.Int32
	c := start(k, func(any) {
		if n.Add(1) == 1 {
			close(in)
			<-gate
		}
	})
	done := make(chan struct{})
	go func() { _ = c.post(0); close(done) }()
	<-in
	full := 0
	for range mailboxCap + 10 {
		if errors.Is(c.post(many{}), ErrOverloaded) {
			full++
		}
	}
	if err := c.post("not bulk"); err != nil {
		t.Errorf("a full mailbox refused a message that is not bulk: %v", err)
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
		k := NewKernel(nil, "some", "other")
		defer time.Sleep(time.Minute) // the library's dead-letter throttle ends
		var handled, failed, lasts int
		c := &cell{}
		k.start(c, other, &probe{on: func(m any) {
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
			_ = c.post("bad")
			_ = c.post("good")
		}
		time.Sleep(2 * time.Minute)
		for range 2 {
			_ = c.post("bad")
		}
		if handled != 2 || failed != 4 || lasts != 0 {
			t.Errorf("handled %d, failed %d, last %d; want 2, 4, 0", handled, failed, lasts)
		}
		_ = c.post("bad")
		if lasts != 1 || !c.stopped() || k.Live(other) != 0 || k.Panics() != 5 {
			t.Errorf("after the third in a minute: last %d, stopped %v, live %d, panics %d", lasts, c.stopped(), k.Live(other), k.Panics())
		}
	})
}

func TestAsk(t *testing.T) {
	k := NewKernel(nil, "some", "other")
	c := start(k, func(m any) {
		if a, ok := m.(*asked); ok && a.m != "silent" {
			a.reply(a.m.(string) + "!")
			a.reply("a second answer is dropped")
		}
	})
	var wg sync.WaitGroup
	for range 20 {
		wg.Go(func() {
			for range 100 {
				if r, err := Ask[string](t.Context(), k, c.pid, "x"); r != "x!" || err != nil {
					t.Errorf("got %q, %v", r, err)
				}
			}
		})
	}
	wg.Wait()
	cause := errors.New("enough")
	ctx, cancel := context.WithTimeoutCause(t.Context(), time.Millisecond, cause)
	defer cancel()
	if _, err := Ask[string](ctx, k, c.pid, "silent"); !errors.Is(err, cause) {
		t.Errorf("without an answer: %v, want the cause", err)
	}
	if _, err := Ask[int](t.Context(), k, c.pid, "x"); err == nil {
		t.Error("an answer of another type was accepted")
	}
	c.stop()
	if _, err := Ask[string](t.Context(), k, c.pid, "x"); !errors.Is(err, ErrUnreachable) && !errors.Is(err, ErrStopped) {
		t.Errorf("a stopped actor: %v", err)
	}
	if _, err := Ask[string](t.Context(), k, actor.NewPID(k.sys.Address(), "nobody"), "x"); !errors.Is(err, ErrUnreachable) {
		t.Errorf("nobody: %v", err)
	}
}

func TestReplyIsNeverLost(t *testing.T) {
	var r reply
	for range 20000 {
		r.init()
		go r.done()
		r.wait()
	}
	r.init()
	r.done()
	r.wait()
}

func TestDirectoryMakesOnce(t *testing.T) {
	d := newDirectory[int, *int]()
	var made atomic.Int32
	var wg sync.WaitGroup
	for range 50 {
		wg.Go(func() {
			v, err := d.obtain(7, func() (*int, error) { n := int(made.Add(1)); return &n, nil })
			if err != nil || *v != 1 {
				t.Errorf("got %v, %v", *v, err)
			}
		})
	}
	wg.Wait()
	if made.Load() != 1 || d.len() != 1 {
		t.Errorf("made %d, len %d", made.Load(), d.len())
	}
	fault := errors.New("no")
	if _, err := d.obtain(8, func() (*int, error) { return nil, fault }); !errors.Is(err, fault) {
		t.Errorf("a failed maker: %v", err)
	}
	if _, ok := d.get(8); ok {
		t.Error("a failed maker left something behind")
	}
	v, _ := d.get(7)
	d.drop(7, new(int))
	if d.len() != 1 {
		t.Error("another one's drop removed it")
	}
	d.drop(7, v)
	if d.len() != 0 {
		t.Error("a dropped key is still there")
	}
}

func BenchmarkPost(b *testing.B) {
	k := NewKernel(nil, "some", "other")
	c := start(k, func(any) {})
	m := &struct{}{}
	b.ReportAllocs()
	for b.Loop() {
		_ = c.post(m)
	}
}

func BenchmarkSend(b *testing.B) {
	k := NewKernel(nil, "some", "other")
	c := start(k, func(any) {})
	m := &struct{}{}
	b.ReportAllocs()
	for b.Loop() {
		k.sys.Root.Send(c.pid, m)
	}
}

func BenchmarkAsk(b *testing.B) {
	k := NewKernel(nil, "some", "other")
	c := start(k, func(m any) { m.(*asked).reply(struct{}{}) })
	b.ReportAllocs()
	for b.Loop() {
		_, _ = Ask[struct{}](b.Context(), k, c.pid, struct{}{})
	}
}
