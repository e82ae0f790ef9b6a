package kernel

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
)

// wire joins nodes: a goroutine of its own delivers each message as a value without pointers into protoactor.
type wire struct {
	mu    sync.Mutex
	nodes map[string]*Kernel
	wg    sync.WaitGroup
}

func (w *wire) Send(to, from *PID, m any) error {
	w.mu.Lock()
	k := w.nodes[to.Address]
	w.mu.Unlock()
	if k == nil {
		return errors.New("no such node")
	}
	copied := func(p *PID) *PID {
		if p == nil {
			return nil
		}
		return &PID{Address: p.Address, Id: p.Id}
	}
	to, from = copied(to), copied(from)
	w.wg.Go(func() { k.Deliver(to, from, m) })
	return nil
}

func (w *wire) join(node string) *Kernel {
	k := New(Config{Node: node, Kinds: []string{"some", "other"}, Remote: w})
	w.mu.Lock()
	defer w.mu.Unlock()
	w.nodes[node] = k
	return k
}

// letter is a message that learns that it was not delivered.
type letter struct {
	text    string
	refused chan error
}

func (l *letter) Refused(err error) { l.refused <- err }

// TestLocalAndRemoteAreOneSend sends and asks by name from the actor's own node and from another one.
func TestLocalAndRemoteAreOneSend(t *testing.T) {
	w := &wire{nodes: map[string]*Kernel{}}
	a, b := w.join("a.1"), w.join("b.1")
	got := make(chan string, 10)
	c := &Actor{}
	a.Start(c, some, "key", &probe{on: func(m any) {
		switch m := m.(type) {
		case *Asked:
			if m.Message == "fail" {
				m.Answer(errors.New("no"))
				return
			}
			m.Answer(m.Message.(string) + "!")
		case string:
			got <- m
		case *letter:
			got <- m.text
		}
	}})
	if id := c.PID().Address + " " + c.PID().Id; id != "a.1 some/key" {
		t.Errorf("the actor is %s", id)
	}
	for name, k := range map[string]*Kernel{"its own node": a, "another node": b} {
		t.Run(name, func(t *testing.T) {
			to := k.PID("a.1", some, "key")
			for range 2 { // the second time with a PID that knows its process
				if r, err := Ask[string](t.Context(), k, to, "hello"); r != "hello!" || err != nil {
					t.Errorf("ask: %q, %v", r, err)
				}
			}
			if _, err := Ask[string](t.Context(), k, to, "fail"); err == nil || err.Error() != "no" {
				t.Errorf("an error as answer: %v", err)
			}
			k.Send(to, "one")
			if m := <-got; m != "one" {
				t.Errorf("got %q", m)
			}
			k.Send(to, &letter{text: "two"})
			if m := <-got; m != "two" {
				t.Errorf("got %q", m)
			}
			before := k.Undelivered() + a.Undelivered()
			for what, to := range map[string]*PID{
				"nobody has the name":      k.PID("a.1", some, "nobody"),
				"another kind":             k.PID("a.1", other, "key"),
				"an earlier process":       k.PID("a.0", some, "key"),
				"a node that nobody knows": k.PID("z", some, "key"),
			} {
				if _, err := Ask[string](t.Context(), k, to, "hello"); !errors.Is(err, ErrUnreachable) {
					t.Errorf("ask, %s: %v", what, err)
				}
				l := &letter{refused: make(chan error, 1)}
				k.Send(to, l)
				if err := <-l.refused; !errors.Is(err, ErrUnreachable) {
					t.Errorf("send, %s: %v", what, err)
				}
			}
			w.wg.Wait()
			if n := k.Undelivered() + a.Undelivered() - before; n != 8 && !(k == a && n == 16) { // a counts twice
				t.Errorf("%d messages count as undelivered, want 8", n)
			}
		})
	}
	c.Stop()
	for _, k := range []*Kernel{a, b} {
		if _, err := Ask[string](t.Context(), k, c.PID(), "hello"); !errors.Is(err, ErrUnreachable) {
			t.Errorf("after the actor's end: %v", err)
		}
	}
	w.wg.Wait()
}

// TestEarlierProcessIsNotThisOne delivers to a node a message for the process before it.
func TestEarlierProcessIsNotThisOne(t *testing.T) {
	w := &wire{nodes: map[string]*Kernel{}}
	a, b := w.join("a.2"), w.join("b.1")
	w.nodes["a.1"] = a // as an inbox of the machine would do
	c := &Actor{}
	a.Start(c, some, "key", &probe{on: func(m any) { t.Errorf("it got %v", m) }})
	if _, err := Ask[string](t.Context(), b, b.PID("a.1", some, "key"), "hello"); !errors.Is(err, ErrUnreachable) {
		t.Errorf("ask: %v", err)
	}
	l := &letter{refused: make(chan error, 1)}
	b.Send(b.PID("a.1", some, "key"), l)
	if err := <-l.refused; !errors.Is(err, ErrUnreachable) {
		t.Errorf("send: %v", err)
	}
	w.wg.Wait()
}

// TestNameBelongsToTheLastStarted starts an actor while an earlier one of its name still lives, and ends the earlier
// one.
func TestNameBelongsToTheLastStarted(t *testing.T) {
	k := New(Config{Kinds: []string{"some"}})
	got := ""
	begin := func(text string) *Actor {
		c := &Actor{}
		k.Start(c, some, "key", &probe{on: func(any) { got += text }})
		return c
	}
	first := begin("1")
	to := k.PID(first.PID().Address, some, "key")
	k.Send(to, nil)
	second := begin("2")
	k.Send(to, nil)
	first.Stop()
	k.Send(to, nil)
	k.Send(first.PID(), nil) // the same name
	second.Stop()
	k.Send(to, nil)
	if n := k.Undelivered(); got != "1222" || n != 1 || k.Live(some) != 0 {
		t.Errorf("handled %q, %d undelivered, %d live", got, n, k.Live(some))
	}
}

// TestSendToABusyActor fills a mailbox, and ends the actor.
func TestSendToABusyActor(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		k := New(Config{Kinds: []string{"some"}})
		hold := make(chan struct{})
		c := &Actor{}
		k.Start(c, some, "", &probe{on: func(any) { <-hold }})
		go k.Send(c.PID(), "first")
		synctest.Wait()
		l := &letter{refused: make(chan error, 1)}
		k.Send(c.PID(), l)
		c.Stop()
		if err := <-l.refused; !errors.Is(err, ErrStopped) || !errors.Is(err, ErrUnreachable) {
			t.Errorf("in the mailbox of an actor that ends: %v", err)
		}
		close(hold)
	})
}

// TestLateAnswerIsNoLoss answers an Ask whose caller has given up.
func TestLateAnswerIsNoLoss(t *testing.T) {
	synctest.Test(t, func(t *testing.T) { // the bubble would wait for a goroutine that is left behind
		k := New(Config{Kinds: []string{"some"}})
		var asked *Asked
		c := start(k, func(m any) { asked = m.(*Asked) })
		ctx, cancel := context.WithCancel(t.Context())
		cancel()
		if _, err := Ask[string](ctx, k, c.PID(), "x"); err == nil {
			t.Error("there was an answer")
		}
		asked.Answer("too late")
		if n := k.Undelivered(); n != 0 {
			t.Errorf("%d undelivered", n)
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

// BenchmarkFind compares the two ways to find an actor: protoactor's registry of names, and a Directory.
func BenchmarkFind(b *testing.B) {
	type key struct{ tenant, id string }
	k := New(Config{Kinds: []string{"some"}})
	d := NewDirectory[key, *Actor]()
	keys := make([]key, 10_000)
	for i := range keys {
		keys[i] = key{fmt.Sprint("tenant-", i%7), fmt.Sprintf("%032x", i)}
		c := &Actor{}
		k.Start(c, some, keys[i].tenant+"."+keys[i].id, &probe{on: func(any) {}})
		d.Put(keys[i], c)
	}
	b.Run("directory", func(b *testing.B) {
		b.ReportAllocs()
		for i := 0; b.Loop(); i++ {
			if _, ok := d.Get(keys[i%len(keys)]); !ok {
				b.Fatal("not found")
			}
		}
	})
	b.Run("registry", func(b *testing.B) {
		b.ReportAllocs()
		for i := 0; b.Loop(); i++ {
			at := keys[i%len(keys)]
			if _, ok := k.sys.ProcessRegistry.GetLocal("some/" + at.tenant + "." + at.id); !ok {
				b.Fatal("not found")
			}
		}
	})
	b.Run("directory-post", func(b *testing.B) {
		b.ReportAllocs()
		for i := 0; b.Loop(); i++ {
			c, _ := d.Get(keys[i%len(keys)])
			_ = c.Post(nil)
		}
	})
	b.Run("send", func(b *testing.B) {
		b.ReportAllocs()
		for i := 0; b.Loop(); i++ {
			at := keys[i%len(keys)]
			k.Send(k.PID("nonhost", some, at.tenant+"."+at.id), nil)
		}
	})
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
