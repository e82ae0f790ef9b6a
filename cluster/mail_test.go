package cluster

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/nats-io/nats.go"

	"github.com/troupe-run/troupe/internal/letter"
	"github.com/troupe-run/troupe/internal/store"
	"github.com/troupe-run/troupe/test/kit"
	"github.com/troupe-run/troupe/test/kit/when"
)

// mailbox is a node that notes what it gets.
type mailbox struct {
	*Node
	mu     sync.Mutex
	got    []string
	missed []string
}

// listening opens a node on its line of a server, which notes all letters, and replies to those of kind echo.
func listening(t *testing.T, v *kit.VirtualNATS, name string) *mailbox {
	t.Helper()
	b := &mailbox{Node: open(t, Options{Node: name, Remote: Remote{URL: v.Line(name).URL()}})}
	b.listen()
	return b
}

func (b *mailbox) listen() {
	b.Mail().Listen(func(l *store.Letter) {
		b.mu.Lock()
		defer b.mu.Unlock()
		b.got = append(b.got, fmt.Sprintf("%s %s %.20s", l.From.Node, l.Kind, l.Data))
		if l.Kind == "echo" {
			l.Reply(append([]byte("re: "), l.Data...))
			l.Reply([]byte("and once more"))
		}
	}, func(from store.Address) {
		b.mu.Lock()
		defer b.mu.Unlock()
		b.missed = append(b.missed, from.Node)
	})
}

func (b *mailbox) self() store.Address { return store.Address{Node: b.Name(), Boot: b.Boot()} }

// letters returns what came since the last call, and from whom some were missed.
func (b *mailbox) letters() (got, missed []string) {
	synctest.Wait()
	b.mu.Lock()
	defer b.mu.Unlock()
	got, missed = b.got, b.missed
	b.got, b.missed = nil, nil
	return got, missed
}

func (b *mailbox) want(t *testing.T, what string, got, missed []string) {
	t.Helper()
	if g, m := b.letters(); !slices.Equal(g, got) || !slices.Equal(m, missed) {
		t.Errorf("%s: %s got %q and missed some of %q, want %q and %q", what, b.Name(), g, m, got, missed)
	}
}

// connected waits until all connections are back.
func (b *mailbox) connected() {
	for !b.conn.IsConnected() || !b.logConn.IsConnected() || !b.mail.conn.IsConnected() {
		time.Sleep(time.Millisecond)
	}
	synctest.Wait()
}

func (b *mailbox) others() string {
	synctest.Wait()
	var all []string
	for _, p := range b.Mail().Others() {
		all = append(all, p.Node)
	}
	return strings.Join(all, " ")
}

// fleet runs f in virtual time, with a server and nodes a, b, and so on.
func fleet(t *testing.T, n int, f func(t *testing.T, v *kit.VirtualNATS, nodes ...*mailbox)) {
	kit.BubbleNATS(t, nil, func(t *testing.T, v *kit.VirtualNATS) {
		var nodes []*mailbox
		for i := range n {
			nodes = append(nodes, listening(t, v, string(rune('a'+i))))
		}
		time.Sleep(time.Millisecond)
		f(t, v, nodes...)
	})
}

func TestMail(t *testing.T) {
	fleet(t, 3, func(t *testing.T, v *kit.VirtualNATS, nodes ...*mailbox) {
		a, b, c := nodes[0], nodes[1], nodes[2]
		if got := a.others() + ", " + b.others() + ", " + c.others(); got != "b c, a c, a b" {
			t.Errorf("at once they hear %s", got)
		}
		reply, err := a.Mail().Ask(t.Context(), b.self(), "echo", []byte("hello"))
		if string(reply) != "re: hello" || err != nil {
			t.Errorf("asked: %q, %v", reply, err)
		}
		a.Mail().Send(b.self(), "x.y", []byte("one"))
		b.want(t, "letters", []string{"a echo hello", "a x.y one"}, nil)
		a.Mail().Tell("lists", []byte("two"))
		a.Mail().Send(store.Address{Node: "b", Boot: "other"}, "x.y", []byte("none"))
		a.Mail().Send(store.Address{Node: "b.>", Boot: "*"}, "x.y", []byte("none"))
		a.Mail().Send(b.self(), "Bad Kind", []byte("none"))
		b.want(t, "letters", []string{"a lists two"}, nil)
		c.want(t, "letters", []string{"a lists two"}, nil)
		a.want(t, "letters", nil, nil)
		if s := a.Mail().Stats(); s.Unsent != 1 || s.Gaps != 0 || s.Refused != 0 || s.Heard != 2 || s.Received == 0 {
			t.Errorf("stats %+v", s)
		}

		// What one receiver takes from one sender keeps its order.
		for i := range 1000 {
			a.Mail().Send(b.self(), "n", fmt.Append(nil, i))
		}
		got, _ := b.letters()
		for i, l := range got {
			if l != fmt.Sprintf("a n %d", i) {
				t.Fatalf("letter %d is %q", i, l)
			}
		}
		if len(got) != 1000 {
			t.Errorf("%d of 1000 letters came", len(got))
		}
	})
}

// TestMailLimits: the biggest letter and reply pass, and a bigger one is refused at once.
func TestMailLimits(t *testing.T) {
	fleet(t, 2, func(t *testing.T, v *kit.VirtualNATS, nodes ...*mailbox) {
		a, b := nodes[0], nodes[1]
		began := time.Now()
		big := make([]byte, letter.MaxData)
		if reply, err := a.Mail().Ask(t.Context(), b.self(), "echo", big[4:]); len(reply) != letter.MaxData || err != nil {
			t.Errorf("the biggest letter: %d bytes of reply, %v", len(reply), err)
		}
		_, err := a.Mail().Ask(t.Context(), b.self(), "echo", big)
		wantErr(t, "a reply that is too big", err, store.ErrUnavailable)
		b.letters()
		_, err = a.Mail().Ask(t.Context(), b.self(), "echo", append(big, 0))
		wantErr(t, "a letter that is too big", err, store.ErrTooBig)
		a.Mail().Send(b.self(), "x", append(big, 0))
		b.want(t, "a letter that is too big", nil, nil)
		a.Mail().Tell("x", append(big, 0))
		a.Mail().Tell("x", nil)
		b.want(t, "after one that is too big", []string{"a x "}, []string{"a"})
		if time.Since(began) > 10*time.Millisecond {
			t.Errorf("it took %v", time.Since(began))
		}
	})
}

// TestMailNobody: whoever is not there is told from whoever does not answer.
func TestMailNobody(t *testing.T) {
	fleet(t, 3, func(t *testing.T, v *kit.VirtualNATS, nodes ...*mailbox) {
		a, b, c := nodes[0], nodes[1], nodes[2]
		began := time.Now()
		for _, p := range []store.Address{{Node: "b", Boot: "other"}, {Node: "nobody", Boot: "x"}, {Node: "", Boot: ""}, {Node: "b", Boot: ""}, {Node: "*", Boot: ">"}, {Node: "b.c", Boot: "d"}, {Node: "b c", Boot: "d"}, {Node: "b", Boot: "c\r\nPUB x 0\r\n\r\n"}, {Node: strings.Repeat("b", 33), Boot: "c"}} {
			_, err := a.Mail().Ask(t.Context(), p, "echo", nil)
			wantErr(t, fmt.Sprintf("ask %v", p), err, store.ErrNobody)
			if errors.Is(err, store.ErrUnavailable) {
				t.Errorf("ask %v: %v says that this is unknown", p, err)
			}
		}
		if time.Since(began) > 10*time.Millisecond {
			t.Errorf("that nobody is there took %v", time.Since(began))
		}
		_, err := a.Mail().Ask(t.Context(), b.self(), "silence", nil)
		wantErr(t, "ask who does not reply", err, store.ErrUnavailable)
		if d := time.Since(began).Round(time.Second); d != 5*time.Second {
			t.Errorf("it took %v", d)
		}
		ctx, cancel := context.WithTimeout(t.Context(), time.Second)
		defer cancel()
		_, err = a.Mail().Ask(ctx, b.self(), "silence", nil)
		wantErr(t, "ask for a second", err, store.ErrUnavailable)
		if d := time.Since(began).Round(time.Second); d != 6*time.Second {
			t.Errorf("it took %v", d-5*time.Second)
		}

		// A node that was killed is nobody, and one that is cut off says nothing.
		v.Line("b").Break()
		synctest.Wait()
		now := time.Now()
		_, err = a.Mail().Ask(t.Context(), b.self(), "echo", nil)
		wantErr(t, "ask a dead node", err, store.ErrNobody)
		_, err = b.Mail().Ask(t.Context(), a.self(), "echo", nil)
		wantErr(t, "ask without a connection", err, store.ErrUnavailable)
		if time.Since(now) > 10*time.Millisecond {
			t.Errorf("that took %v", time.Since(now))
		}
		v.Line("c").Cut()
		_, err = a.Mail().Ask(t.Context(), c.self(), "echo", nil)
		wantErr(t, "ask a node that is cut off", err, store.ErrUnavailable)
		time.Sleep(a.opts.Lease)
		if got := a.others(); got != "" {
			t.Errorf("after a lease it still hears %s", got)
		}
		v.Line("b").Heal()
		v.Line("c").Heal()
		time.Sleep(2 * time.Second)
		if got := a.others(); got != "b c" {
			t.Errorf("when they are back it hears %q", got)
		}
	})
}

// TestMailGoodbye: a node that leaves is no more among the others at once, and ends what is asked.
func TestMailGoodbye(t *testing.T) {
	fleet(t, 2, func(t *testing.T, v *kit.VirtualNATS, nodes ...*mailbox) {
		a, b := nodes[0], nodes[1]
		ended := make(chan error, 1)
		go func() {
			_, err := b.Mail().Ask(t.Context(), a.self(), "silence", nil)
			ended <- err
		}()
		synctest.Wait()
		began := time.Now()
		if err := b.Close(t.Context()); err != nil {
			t.Fatal(err)
		}
		wantErr(t, "ask of a node that closes", <-ended, store.ErrUnavailable)
		if got := a.others(); got != "" || time.Since(began) > time.Second {
			t.Errorf("after %v it hears %q", time.Since(began), got)
		}
		_, err := a.Mail().Ask(t.Context(), b.self(), "echo", nil)
		wantErr(t, "ask a node that left", err, store.ErrNobody)
		_, err = b.Mail().Ask(t.Context(), a.self(), "echo", nil)
		wantErr(t, "ask after Close", err, store.ErrUnavailable)
		b.Mail().Tell("x", nil)
		b.Mail().Send(a.self(), "x", nil)
		a.want(t, "letters", []string{"b silence "}, nil)
		b.want(t, "letters", nil, nil)

		// Its next boot takes its place.
		next := listening(t, v, "b")
		later := listening(t, v, "b")
		synctest.Wait()
		if got := a.Mail().Others(); len(got) != 1 || got[0] != later.self() {
			t.Errorf("it hears %v, want %v and not %v", got, later.self(), next.self())
		}
		if got := later.others(); got != "a" {
			t.Errorf("the later boot hears %q", got)
		}
	})
}

// TestMailIsUnsubscribed: who asks a node that is about to close its connection learns that nobody is there, and need not wait until a server notices the end of
// that. What came before has its reply.
func TestMailIsUnsubscribed(t *testing.T) {
	fleet(t, 2, func(t *testing.T, v *kit.VirtualNATS, nodes ...*mailbox) {
		a, b := nodes[0], nodes[1]
		before := make(chan error, 1)
		go func() {
			_, err := a.Mail().Ask(t.Context(), b.self(), "echo", nil)
			before <- err
		}()
		synctest.Wait()
		unsubscribe(b.Mail().conn, b.Mail().mine)
		if _, err := a.Mail().Ask(t.Context(), b.self(), "echo", nil); !errors.Is(err, store.ErrNobody) {
			t.Errorf("ask a node that has unsubscribed: %v", err)
		}
		if err := <-before; err != nil {
			t.Errorf("asked before: %v", err)
		}
		began := time.Now()
		v.Line("a").Cut()
		unsubscribe(a.Mail().conn, a.Mail().mine)
		if took := time.Since(began); took != unsubscribeTime {
			t.Errorf("a node that is cut off waits for %v", took)
		}
		v.Line("a").Heal()
	})
}

// TestMailGap: whoever misses letters to all learns that, by the next one or by a heart.
func TestMailGap(t *testing.T) {
	fleet(t, 3, func(t *testing.T, v *kit.VirtualNATS, nodes ...*mailbox) {
		a, b, c := nodes[0], nodes[1], nodes[2]
		tell := func(n int) {
			for range n {
				a.Mail().Tell("x", nil)
			}
			synctest.Wait()
		}
		// A node that comes later has missed nothing.
		tell(3)
		d := listening(t, v, "d")
		tell(1)
		d.want(t, "first contact", []string{"a x "}, nil)
		b.letters()
		c.letters()

		// Letters before the connection is back, and one after.
		v.Line("b").Break()
		tell(2)
		v.Line("b").Heal()
		b.connected()
		tell(1)
		b.want(t, "a letter after a gap", []string{"a x "}, []string{"a"})
		c.want(t, "no gap", []string{"a x ", "a x ", "a x "}, nil)

		// Nothing but a heart comes after.
		v.Line("b").Break()
		tell(2)
		v.Line("b").Heal()
		b.want(t, "before a heart", nil, nil)
		time.Sleep(2 * time.Second)
		b.want(t, "a heart after a gap", nil, []string{"a"})
		time.Sleep(10 * time.Second)
		b.want(t, "later", nil, nil)

		// The sender was away, and could not send. It is not there any more when others can know.
		v.Line("a").Break()
		synctest.Wait()
		tell(1)
		v.Line("a").Heal()
		time.Sleep(2 * time.Second)
		b.want(t, "sender away", nil, []string{"a"})
		v.Line("a").Break()
		synctest.Wait()
		tell(1)
		time.Sleep(time.Minute)
		b.want(t, "sender silent: its last letters may not have come", nil, []string{"a"})
		v.Line("a").Heal()
		time.Sleep(2 * time.Second)
		b.want(t, "sender long away", nil, []string{"a"})

		// The last one is lost, and goodbye tells.
		v.Line("c").Break()
		tell(1)
		v.Line("c").Heal()
		c.connected()
		c.letters()
		change(t, a.Close(t.Context()))
		c.want(t, "a goodbye after a gap", nil, []string{"a"})
		if n := b.Mail().Stats().Gaps; n != 5 {
			t.Errorf("%d gaps are counted", n)
		}
	})
}

// TestMailSilence: a node that dies may have told something last that nobody got, which no later letter of it shows.
func TestMailSilence(t *testing.T) {
	when.Unraced(t, "virtual time that is long under the race detector")
	fleet(t, 2, func(t *testing.T, v *kit.VirtualNATS, nodes ...*mailbox) {
		a, b := nodes[0], nodes[1]
		time.Sleep(time.Minute)
		b.want(t, "a node that says nothing but that it is there", nil, nil)

		v.Line("a").Break()
		synctest.Wait()
		a.Mail().Tell("x", nil)
		time.Sleep(a.opts.Lease)
		b.want(t, "a lease after the last heart", nil, nil)
		time.Sleep(2 * time.Second)
		b.want(t, "then", nil, []string{"a"})
		time.Sleep(time.Minute)
		b.want(t, "later", nil, nil)

		// A boot that comes back under the name of one that was there a moment ago.
		c := listening(t, v, "c")
		time.Sleep(2 * time.Second)
		b.want(t, "one that has come", nil, nil)
		v.Line("c").Break()
		synctest.Wait()
		c.Mail().Tell("x", nil)
		again := &mailbox{Node: open(t, Options{Node: "c", Remote: Remote{URL: v.Line("c2").URL()}})}
		again.listen()
		synctest.Wait()
		b.want(t, "a later boot", nil, []string{"c"})
		time.Sleep(time.Minute)
		b.want(t, "once", nil, nil)
		v.Line("a").Heal()
		v.Line("c").Heal()
		time.Sleep(10 * time.Second)
	})
}

// TestMailGone: a boot is gone once its entry is, and only for a node that could renew its own after that.
func TestMailGone(t *testing.T) {
	fleet(t, 2, func(t *testing.T, v *kit.VirtualNATS, nodes ...*mailbox) {
		a, b := nodes[0], nodes[1]
		gone := func(of *mailbox, p store.Address) string {
			yes, err := of.Gone(t.Context(), p)
			if err != nil && !errors.Is(err, store.ErrUnavailable) {
				t.Errorf("the error is %v", err)
			}
			if err != nil && yes {
				t.Error("gone, and an error")
			}
			return fmt.Sprint(yes, err != nil)
		}
		for _, c := range []struct {
			after time.Duration
			p     store.Address
			want  string
		}{
			{0, b.self(), "false false"},
			{0, store.Address{Node: "b", Boot: "other"}, "true false"}, // another boot has its name
			{0, store.Address{Node: "*", Boot: ">"}, "true false"},
			{0, a.self(), "false false"},
			{0, store.Address{Node: "nobody", Boot: "x"}, "false true"}, // a node that has just begun cannot tell
			{a.opts.Lease, store.Address{Node: "nobody", Boot: "x"}, "false true"},
			{2 * time.Second, store.Address{Node: "nobody", Boot: "x"}, "true false"},
		} {
			if time.Sleep(c.after); gone(a, c.p) != c.want {
				t.Errorf("%v is gone: not %s", c.p, c.want)
			}
		}
		v.Line("b").Break()
		if got := gone(a, b.self()); got != "false false" {
			t.Errorf("while the lease runs, a dead node is gone: %s", got)
		}
		time.Sleep(b.opts.Lease + 2*time.Second)
		if got := gone(a, b.self()); got != "true false" {
			t.Errorf("after the lease, a dead node is gone: %s", got)
		}

		// The entry of the asking node expires, too, when it is cut off; then it knows nothing.
		v.Line("b").Heal()
		time.Sleep(3 * time.Second)
		v.Line("a").Cut()
		ended := make(chan string, 1)
		go func() { ended <- gone(a, store.Address{Node: "b", Boot: "other"}) }()
		if got := <-ended; got != "false true" {
			t.Errorf("a node that is cut off says gone: %s", got)
		}
		time.Sleep(time.Minute)
		if got := gone(a, store.Address{Node: "b", Boot: "other"}); got != "false true" || !a.Suspended() {
			t.Errorf("a node that was cut off for long, suspended %v, says gone: %s", a.Suspended(), got)
		}
		v.Line("a").Heal()
		time.Sleep(3 * time.Second)
		if got := gone(a, store.Address{Node: "nobody", Boot: "x"}); got != "false true" {
			t.Errorf("when it has just come back: %s", got)
		}
		change(t, b.markTaken(t.Context(), "m", hasLeft, time.Minute))
		if got := gone(a, store.Address{Node: "nobody", Boot: "m"}); got != "true false" {
			t.Errorf("when it has just come back, and another one knows: %s", got)
		}
		change(t, b.MarkTaken(t.Context(), "m", time.Hour)) // as its streams go on elsewhere
		if got := gone(a, store.Address{Node: "nobody", Boot: "m"}); got != "true false" {
			t.Errorf("when it has just come back, and a stream of the one that left was taken over: %s", got)
		}
		change(t, b.MarkTaken(t.Context(), "n", time.Hour))
		if got := gone(a, store.Address{Node: "nobody", Boot: "n"}); got != "false true" {
			t.Errorf("when it has just come back, and streams were taken from one that may be back: %s", got)
		}
		time.Sleep(a.opts.Lease)
		if got := gone(a, store.Address{Node: "nobody", Boot: "y"}); got != "true false" {
			t.Errorf("a lease later: %s", got)
		}

		// It is cut off between the read and the renewal.
		v.Line("a").Slow(100 * time.Millisecond)
		go func() { ended <- gone(a, store.Address{Node: "b", Boot: "other"}) }()
		time.Sleep(250 * time.Millisecond)
		v.Line("a").Cut()
		if got := <-ended; got != "false true" {
			t.Errorf("a node that was cut off before its renewal says gone: %s", got)
		}
		v.Line("a").Slow(0)
		v.Line("a").Heal()
		time.Sleep(5 * time.Second)

		// A newer boot has its name.
		open(t, Options{Node: "b", Remote: Remote{URL: v.Line("c").URL()}})
		if got := gone(b, store.Address{Node: "c", Boot: "x"}); got != "false true" {
			t.Errorf("a node that was replaced says gone: %s", got)
		}

		// Whoever closes says nothing.
		change(t, a.Close(t.Context()))
		if got := gone(a, store.Address{Node: "b", Boot: "other"}); got != "false true" {
			t.Errorf("after Close: %s", got)
		}
	})
}

// TestGoneNeedsARenewal: the answer waits for a renewal that was sent after the entry was read, and many share it.
func TestGoneNeedsARenewal(t *testing.T) {
	fleet(t, 1, func(t *testing.T, v *kit.VirtualNATS, nodes ...*mailbox) {
		a := nodes[0]
		const slow = 200 * time.Millisecond
		v.Line("a").Slow(slow)
		time.Sleep(2*a.opts.Lease + a.opts.Lease/10) // between two renewals
		synctest.Wait()
		// The next renewal is on its way when the reads return: it was sent too early to count.
		next := a.lease.base.Add(time.Duration(a.lease.renewed.Load()) + a.opts.Lease/5)
		time.Sleep(time.Until(next.Add(-slow)))
		synctest.Wait()
		rev, began := a.lease.m.Rev, time.Now()
		var all sync.WaitGroup
		for i := range 50 {
			all.Go(func() {
				yes, err := a.Gone(t.Context(), store.Address{Node: "x", Boot: fmt.Sprint(i)})
				sent := a.lease.base.Add(time.Duration(a.lease.renewed.Load()))
				if !yes || err != nil {
					t.Errorf("gone: %v, %v", yes, err)
				}
				// The read takes slow each way.
				if sent.Before(began.Add(2*slow)) || began.Add(slow).Before(next) {
					t.Errorf("the renewal was sent %v after the question, before the answer of the read", sent.Sub(began))
				}
			})
		}
		all.Wait()
		synctest.Wait()
		if took := time.Since(began); took > 6*slow {
			t.Errorf("it took %v", took)
		}
		if renewals := a.lease.m.Rev - rev; renewals != 2 {
			t.Errorf("%d renewals for 50 questions, want the one that was under way and one more", renewals)
		}
	})
}

// TestMailMalformed: what cannot be read is counted and dropped. Nobody gets a reply to it: see TestNoReplyToAnybody.
func TestMailMalformed(t *testing.T) {
	fleet(t, 2, func(t *testing.T, v *kit.VirtualNATS, nodes ...*mailbox) {
		a, b := nodes[0], nodes[1]
		answers := must[*nats.Subscription](t)(a.conn.SubscribeSync(a.subjectOf("re.odd")))
		bad := [][]byte{nil, {}, {0}, {1, 2, 3}, {letter.Version}, {letter.Version + 1, 1, 2, 3}, []byte("hello"), make([]byte, 1<<20),
			append(letter.Append(nil, letter.Head{Form: letter.Reply, Node: "a", Boot: "b"}, nil), make([]byte, letter.MACSize)...)}
		for _, data := range bad {
			change(t, a.conn.PublishRequest(a.subjectOf("at.b."+b.Boot()), a.subjectOf("re.odd"), data))
			change(t, a.conn.Publish(a.subjectOf("all"), data))
		}
		change(t, a.conn.Flush())
		b.want(t, "what cannot be read", nil, nil)
		if got := b.Mail().Stats().Refused; got != uint64(2*len(bad)) {
			t.Errorf("%d are counted, want %d", got, 2*len(bad))
		}
		if n, _, err := answers.Pending(); n != 0 || err != nil {
			t.Errorf("%d replies were sent, %v", n, err)
		}
	})
}

// TestMailBeforeListen: until its actors listen, a node is not heard, and refuses.
func TestMailBeforeListen(t *testing.T) {
	fleet(t, 1, func(t *testing.T, v *kit.VirtualNATS, nodes ...*mailbox) {
		a := nodes[0]
		b := &mailbox{Node: open(t, Options{Node: "b", Remote: Remote{URL: v.Line("b").URL()}})}
		began := time.Now()
		_, err := a.Mail().Ask(t.Context(), b.self(), "echo", nil)
		wantErr(t, "ask a node that does not listen", err, store.ErrUnavailable)
		if time.Since(began) > 10*time.Millisecond {
			t.Errorf("it took %v", time.Since(began))
		}
		time.Sleep(3 * time.Second)
		if got := a.others(); got != "" {
			t.Errorf("it hears %q", got)
		}
		b.listen()
		if got := a.others(); got != "b" {
			t.Errorf("it hears %q", got)
		}
	})
}

// TestOutbox: what waits to be sent is bounded, and a letter to all that does not fit leaves a gap.
func TestOutbox(t *testing.T) {
	t.Parallel()
	o := newOutbox()
	number := func(m *nats.Msg) uint64 {
		h, _, err := letter.Read(append(bytes.Clone(m.Data), make([]byte, letter.MACSize)...))
		change(t, err)
		return h.Num
	}
	msg := func(f letter.Form, size int) *nats.Msg {
		return &nats.Msg{Data: letter.Append(nil, letter.Head{Form: f, Kind: "x", Node: "a", Boot: "b"}, make([]byte, size))}
	}
	for range 2 {
		n, size := 0, len(msg(letter.All, 1<<20).Data)
		for o.queueLetter(msg(letter.All, 1<<20), letter.All) == nil {
			n++
		}
		wantErr(t, "a letter too many", o.queueLetter(msg(letter.To, 1<<20), letter.To), errOutbox)
		if n != maxOutbox/size {
			t.Errorf("%d letters of %d bytes wait, want %d", n, size, maxOutbox/size)
		}
		all := o.takeLetters()
		if first, last := number(all[0]), number(all[len(all)-1]); len(all) != n || last != first+uint64(n-1) {
			t.Errorf("%d letters with the numbers %d to %d", len(all), first, last)
		}
		before := number(all[len(all)-1])
		heart, next := msg(letter.Heart, 0), msg(letter.All, 0)
		change(t, o.queueLetter(heart, letter.Heart))
		change(t, o.queueLetter(next, letter.All))
		if h, n := number(heart), number(next); h != before+1 || n != before+2 {
			t.Errorf("after one that did not fit: a heart has %d and a letter %d, the last one had %d", h, n, before)
		}
		o.takeLetters()
	}
	o.close()
	wantErr(t, "a letter after close", o.queueLetter(msg(letter.To, 0), letter.To), store.ErrClosed)
}

// TestSerials: a letter that is late counts as one only by those that its sender sent to the same subject, and serials rise however many
// subjects there were.
func TestSerials(t *testing.T) {
	t.Parallel()
	o, replays := newOutbox(), letter.NewReplays(10)
	send := func(to string, f letter.Form) *letter.Head {
		m := &nats.Msg{Subject: to, Data: letter.Append(nil, letter.Head{Form: f, Kind: "x", Node: "a", Boot: "b"}, nil)}
		change(t, o.queueLetter(m, f))
		h, _, err := letter.Read(append(m.Data, make([]byte, letter.MACSize)...))
		change(t, err)
		return &h
	}
	all, one := send("all", letter.All), send("at.x", letter.To)
	for range 100 {
		send("at.y", letter.To)
		send("at.z", letter.To)
	}
	for _, later := range []*letter.Head{send("at.x", letter.To), send("all", letter.Heart)} {
		if !replays.First(later) {
			t.Errorf("a letter counts as one that came before: %+v", later)
		}
	}
	for _, late := range []*letter.Head{one, all} {
		if !replays.First(late) || replays.First(late) {
			t.Errorf("a late letter is not taken once: %+v", late)
		}
	}
	last := send("at.x", letter.To)
	for i := range 3 * maxHeard {
		send(fmt.Sprint("at.", i), letter.To)
	}
	if next := send("at.x", letter.To); next.Serial <= last.Serial || len(o.serials) > maxHeard {
		t.Errorf("after serial %d comes %d, and %d subjects are known", last.Serial, next.Serial, len(o.serials))
	}
}

// TestHeartsForget: what is known of others is bounded.
func TestHeartsForget(t *testing.T) {
	t.Parallel()
	h := hearts{heard: make(map[store.Address]*heard)}
	now := time.Now()
	for i := range 3 * maxHeard {
		p := store.Address{Node: fmt.Sprintf("n%d", i), Boot: "x"}
		h.hearLetter(p, letter.Head{Form: letter.Heart, Num: 1}, nil, now)
		h.hearLetter(store.Address{Node: "busy", Boot: "x"}, letter.Head{Form: letter.All, Num: uint64(i + 1)}, nil, now)
		now = now.Add(time.Second)
	}
	if len(h.heard) > maxHeard {
		t.Errorf("%d are known", len(h.heard))
	}
	if gap, _ := h.hearLetter(store.Address{Node: "busy", Boot: "x"}, letter.Head{Form: letter.All, Num: 3*maxHeard + 2}, nil, now); !gap {
		t.Error("a node that is heard all the time was forgotten")
	}
	if gap, _ := h.hearLetter(store.Address{Node: "busy", Boot: "x"}, letter.Head{Form: letter.All, Num: 3}, nil, now); gap {
		t.Error("a letter that came late is a gap")
	}
	// What another release says in its hearts, or does not.
	for _, data := range [][]byte{nil, {0xff}, {5, 1, 2, 3}} {
		if b := readBeat(data); b.entry != 0 && b.entry != 5 {
			t.Errorf("%v is read as %+v", data, b)
		}
	}
}

// TestNextBootAfterSilence: what a boot told while it was not heard is missed when its next one comes.
func TestNextBootAfterSilence(t *testing.T) {
	t.Parallel()
	h, now := hearts{heard: make(map[store.Address]*heard)}, time.Now()
	hear := func(boot string, entry uint64) (gap bool) {
		gap, _ = h.hearLetter(store.Address{Node: "n", Boot: boot}, letter.Head{Form: letter.Heart}, beat{entry: entry}.encode(), now)
		return gap
	}
	if hear("x", 1) {
		t.Error("the first boot that is heard is a gap")
	}
	now = now.Add(10 * time.Second)
	if all := h.takeSilent(5*time.Second, now); len(all) != 1 {
		t.Errorf("silent are %v", all)
	}
	if !hear("y", 2) {
		t.Error("the next boot of a node that had fallen silent is no gap")
	}
	if hear("y", 2) || !hear("z", 3) || hear("z", 3) {
		t.Error("a boot is a gap once")
	}
}

func TestMailAlone(t *testing.T) {
	t.Parallel()
	if n := open(t, Options{}); n.Mail() != nil {
		t.Error("a node with a server of its own has mail")
	}
}
