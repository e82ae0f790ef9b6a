package sim

import (
	"context"
	"errors"
	"testing"
	"testing/synctest"
	"time"

	leases "github.com/troupe-run/troupe/internal/lease"
	"github.com/troupe-run/troupe/internal/letter"
	"github.com/troupe-run/troupe/internal/store"
)

const lease = 5 * time.Second

var b1 = store.Address{Node: "b", Boot: "1"}

// member is a process of a test: its way to the store, and its box.
type member struct {
	*Link
	*Box
}

func enter(o *Office, s *Store, node, boot string) member {
	l := NewLink(s, lease, func(string) Fate { return Fate{There: time.Millisecond, Back: time.Millisecond, Hang: true} })
	m := member{l, o.Enter(node, boot, l)}
	m.Listen(func(l *store.Letter) {
		if l.Reply != nil {
			l.Reply(l.Data)
		}
	}, func(store.Address) {})
	return m
}

// TestGone judges when a node may say that another one is gone.
func TestGone(t *testing.T) {
	for _, c := range []struct {
		name  string
		harm  func(a, b member)
		after time.Duration
		gone  bool
		err   error
	}{
		{"nothing", func(a, b member) {}, time.Minute, false, nil},
		{"killed", func(a, b member) { b.Link.Kill() }, lease - time.Second, false, nil},
		{"killed, and its lease is over", func(a, b member) { b.Link.Kill() }, lease, true, nil},
		{"restarted", func(a, b member) { b.Link.Kill(); b.Supersede() }, 0, true, nil},
		{"left", func(a, b member) { b.Leave() }, 0, true, nil},
		{"cut off", func(a, b member) { b.Down() }, lease - time.Second, false, nil},
		{"cut off, and its lease is over", func(a, b member) { b.Down() }, lease, true, nil},
		{"back, and not yet renewed", func(a, b member) { b.Down(); time.Sleep(2 * lease); b.Up() }, 0, true, nil},
		{"back, and renewed", func(a, b member) { b.Down(); time.Sleep(2 * lease); b.Up() }, renewal, false, nil},
		{"stands still", func(a, b member) { b.Freeze() }, lease - time.Second, false, nil},
		{"stands still, and its lease is over", func(a, b member) { b.Freeze() }, lease, true, nil},
		{"goes on", func(a, b member) { b.Freeze(); time.Sleep(2 * lease); b.Thaw() }, renewal, false, nil},
		{"who asks is cut off", func(a, b member) { b.Link.Kill(); a.Down() }, 2 * lease, false, store.ErrUnavailable},
		{"who asks has just come back", func(a, b member) { b.Link.Kill(); a.Down(); time.Sleep(2 * lease); a.Up() }, 0, false, store.ErrUnavailable},
		{"who asks is back for a while", func(a, b member) { b.Link.Kill(); a.Down(); time.Sleep(2 * lease); a.Up() }, lease, false, store.ErrUnavailable},
		{"who asks is back for long", func(a, b member) { b.Link.Kill(); a.Down(); time.Sleep(2 * lease); a.Up() }, lease + leases.Reconnect, true, nil},
		{"the store was away from both", func(a, b member) { a.Down(); b.Down(); time.Sleep(2 * lease); a.Up() }, leases.Reconnect, false, store.ErrUnavailable},
		{"who asks was replaced", func(a, b member) { b.Link.Kill(); a.Supersede() }, 2 * lease, false, store.ErrUnavailable},
		{"without mail", func(a, b member) { b.Link.Kill(); a.Cut(true) }, lease, true, nil},
	} {
		t.Run(c.name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				o, s := NewOffice(nil), New(time.Hour)
				a, b := enter(o, s, "a", "1"), enter(o, s, "b", "1")
				time.Sleep(lease + leases.Reconnect)
				c.harm(a, b)
				time.Sleep(c.after)
				ctx, cancel := context.WithTimeout(t.Context(), time.Second)
				defer cancel()
				if gone, err := a.Box.Gone(ctx, b1); gone != c.gone || !errors.Is(err, c.err) {
					t.Errorf("gone is %v, %v, want %v, %v", gone, err, c.gone, c.err)
				}
			})
		})
	}
}

// TestStandingStill has a process stand still to which messages are sent, and one that sends some: all wait, and arrive in order.
func TestStandingStill(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		o, s := NewOffice(nil), New(time.Hour)
		a, b := enter(o, s, "a", "1"), enter(o, s, "b", "1")
		var got string
		b.Listen(func(l *store.Letter) {
			got += l.Kind
			if l.Reply != nil {
				l.Reply(nil)
			}
		}, func(store.Address) {})
		b.Freeze()
		a.Send(b1, "1", nil)
		if _, err := a.Ask(t.Context(), b1, "2", nil); !errors.Is(err, store.ErrUnavailable) {
			t.Errorf("who stands still answers: %v", err)
		}
		a.Tell("3", nil)
		a.Freeze()
		a.Tell("4", nil)
		a.Send(b1, "5", nil)
		synctest.Wait()
		if got != "" {
			t.Errorf("who stands still gets %s", got)
		}
		b.Thaw()
		synctest.Wait()
		if got != "123" {
			t.Errorf("who goes on gets %s", got)
		}
		a.Thaw()
		synctest.Wait()
		if _, err := a.Ask(t.Context(), b1, "6", nil); got != "123456" || err != nil {
			t.Errorf("from who goes on too it gets %s, %v", got, err)
		}
		b.Freeze()
		b.Link.Kill()
		b.Box.Kill()
		if _, err := a.Ask(t.Context(), b1, "7", nil); !errors.Is(err, store.ErrNobody) {
			t.Errorf("the dead answer: %v", err)
		}
		a.Cut(true)
		if _, err := a.Ask(t.Context(), b1, "8", nil); !errors.Is(err, store.ErrUnavailable) {
			t.Errorf("who is cut off knows that nobody is there: %v", err)
		}
	})
}

// TestFrozenOperation has a process stand still while an operation of its is under way, and before one: what is on its way is
// done, and what is not begins later.
func TestFrozenOperation(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := New(time.Hour)
		l := NewLink(s, lease, func(string) Fate { return Fate{There: time.Second, Back: time.Second} })
		first, second := make(chan error, 1), make(chan error, 1)
		go func() { _, err := l.Create(t.Context(), "first", []byte("x"), 0); first <- err }()
		synctest.Wait()
		l.Freeze()
		go func() { _, err := l.Create(t.Context(), "second", []byte("x"), 0); second <- err }()
		time.Sleep(time.Minute)
		if n := s.Size(); n != 1 || len(first) > 0 {
			t.Errorf("%d records are stored, and %d outcomes are known", n, len(first))
		}
		l.Thaw()
		time.Sleep(time.Minute)
		if err1, err2 := <-first, <-second; err1 != nil || err2 != nil || s.Size() != 2 {
			t.Errorf("then %d records are stored: %v, %v", s.Size(), err1, err2)
		}
	})
}

// TestMessagesHaveASize sends messages, and replies, as large as one may be, and larger by a byte.
func TestMessagesHaveASize(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		o := NewOffice(nil)
		a, b := o.Join("a", "1"), o.Join("b", "1")
		got, missed := make(map[string]int), 0
		b.Listen(func(l *store.Letter) {
			kind, data, reply := l.Kind, l.Data, l.Reply
			got[kind] += len(data)
			if reply != nil {
				reply(append(data, data...))
			}
		}, func(store.Address) { missed++ })
		for more := range 2 {
			data := make([]byte, letter.MaxData+more)
			a.Send(b1, "send", data)
			a.Tell("tell", data)
			_, err := a.Ask(t.Context(), b1, "ask", data)
			if errors.Is(err, store.ErrTooBig) != (more > 0) {
				t.Errorf("with %d bytes more than fit: %v", more, err)
			}
		}
		a.Tell("later", nil)
		synctest.Wait()
		for _, kind := range []string{"send", "tell", "ask"} {
			if got[kind] != letter.MaxData {
				t.Errorf("%d bytes came by %s, want %d", got[kind], kind, letter.MaxData)
			}
		}
		if missed != 1 {
			t.Errorf("the loss of a message to all was noticed %d times", missed)
		}
		for size, want := range map[int]int{letter.MaxData / 2: letter.MaxData / 2 * 2, letter.MaxData/2 + 1: 0} {
			if reply, err := a.Ask(t.Context(), b1, "ask", make([]byte, size)); err != nil || len(reply) != want {
				t.Errorf("a reply to %d bytes has %d, want %d: %v", size, len(reply), want, err)
			}
		}
	})
}
