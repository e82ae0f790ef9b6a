package cluster

import (
	"bytes"
	"context"
	"fmt"
	"math"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/nats-io/nats.go"

	"github.com/troupe-run/troupe/internal/inproc"
	"github.com/troupe-run/troupe/internal/letter"
	"github.com/troupe-run/troupe/internal/store"
	"github.com/troupe-run/troupe/test/kit"
	"github.com/troupe-run/troupe/test/kit/when"
)

// stranger is a user of the same NATS server who is no node: it reads all that nodes send one another, and may publish anything.
type stranger struct {
	*nats.Conn
	t    *testing.T
	mu   sync.Mutex
	read []*nats.Msg
}

func newStranger(t *testing.T, v *kit.VirtualNATS) *stranger {
	t.Helper()
	s := &stranger{t: t}
	s.Conn = must[*nats.Conn](t)(nats.Connect(v.Line("stranger").URL(), nats.SetCustomDialer(inproc.Dialer{}), nats.SkipHostLookup()))
	t.Cleanup(s.Close)
	for _, subject := range []string{"troupe.at.>", "troupe.all", "troupe.re.>"} {
		must[*nats.Subscription](t)(s.Subscribe(subject, func(m *nats.Msg) {
			s.mu.Lock()
			defer s.mu.Unlock()
			s.read = append(s.read, m)
		}))
	}
	change(t, s.Flush())
	return s
}

// letter returns the last message that has a text in it.
func (s *stranger) letter(text string) *nats.Msg {
	s.t.Helper()
	synctest.Wait()
	s.mu.Lock()
	defer s.mu.Unlock()
	for i := len(s.read) - 1; i >= 0; i-- {
		if bytes.Contains(s.read[i].Data, []byte(text)) {
			return s.read[i]
		}
	}
	s.t.Fatalf("no message with %q was read", text)
	return nil
}

func (s *stranger) send(subject, reply string, data []byte) {
	s.t.Helper()
	change(s.t, s.PublishMsg(&nats.Msg{Subject: subject, Reply: reply, Data: data}))
	change(s.t, s.Flush())
}

// TestForgedLetters: a node takes a letter of another node once, as that has sent it, and nothing else.
func TestForgedLetters(t *testing.T) {
	fleet(t, 2, func(t *testing.T, v *kit.VirtualNATS, nodes ...*mailbox) {
		a, b := nodes[0], nodes[1]
		s := newStranger(t, v)
		a.Mail().Tell("lists", []byte("to all"))
		b.want(t, "what was sent", []string{"a lists to all"}, nil)
		a.Mail().Send(b.self(), "x", []byte("to one"))
		b.want(t, "what was sent", []string{"a x to one"}, nil)

		all, one := s.letter("to all"), s.letter("to one")
		changed := func(m *nats.Msg, old, new string) []byte { return bytes.Replace(m.Data, []byte(old), []byte(new), 1) }
		for what, m := range map[string]*nats.Msg{
			"another text for all":        {Subject: all.Subject, Data: changed(all, "to all", "FORGED")},
			"another text for one":        {Subject: one.Subject, Data: changed(one, "to one", "FORGED")},
			"another sender":              {Subject: all.Subject, Data: changed(all, a.Boot(), "0therb0t")},
			"what was for all, to one":    {Subject: one.Subject, Data: all.Data},
			"what was for one, to all":    {Subject: all.Subject, Data: one.Data},
			"what was for a, to b":        {Subject: one.Subject, Data: changed(one, "to one", "to two")},
			"with an address for replies": {Subject: one.Subject, Reply: "troupe.re.stranger", Data: one.Data},
		} {
			before := b.Mail().Stats().Forged
			s.send(m.Subject, m.Reply, m.Data)
			b.want(t, what, nil, nil)
			if got := b.Mail().Stats().Forged; got != before+1 {
				t.Errorf("%s: %d are counted, want 1", what, got-before)
			}
		}
		before := b.Mail().Stats().Replayed
		s.send(all.Subject, "", all.Data)
		s.send(one.Subject, "", one.Data)
		b.want(t, "what came before", nil, nil)
		if got := b.Mail().Stats().Replayed - before; got != 2 {
			t.Errorf("%d that came before are counted, want 2", got)
		}

		// Nobody becomes a member by what he says.
		if got := b.others(); got != "a" {
			t.Errorf("it hears %q", got)
		}
		a.Mail().Tell("lists", []byte("more"))
		b.want(t, "the next one", []string{"a lists more"}, nil)
	})
}

// TestNoReplyToAnybody: a node does not publish where a stranger wants it to. It may publish what the stranger may not: here, the removal of a stream.
func TestNoReplyToAnybody(t *testing.T) {
	fleet(t, 2, func(t *testing.T, v *kit.VirtualNATS, nodes ...*mailbox) {
		a, b := nodes[0], nodes[1]
		s := newStranger(t, v)
		a.Mail().Send(b.self(), "x", []byte("to one"))
		one := s.letter("to one")
		for _, data := range [][]byte{nil, []byte("hello"), one.Data, {letter.Version + 1, 1, 2, 3}} {
			s.send(one.Subject, "$JS.API.STREAM.DELETE.troupe_sessions", data)
		}
		synctest.Wait()
		if _, err := b.fillOfKind(t.Context(), "sessions"); err != nil {
			t.Errorf("after letters whose replies were to remove a stream: %v", err)
		}
	})
}

// TestForgedReplies: a question ends with the reply of the node that it was for, whatever a stranger sends who knows the address.
func TestForgedReplies(t *testing.T) {
	fleet(t, 2, func(t *testing.T, v *kit.VirtualNATS, nodes ...*mailbox) {
		a, b := nodes[0], nodes[1]
		s := newStranger(t, v)
		asked := make(chan *store.Letter, 1)
		b.mail.turn.Lock()
		b.mail.receive = func(l *store.Letter) { asked <- l }
		b.mail.turn.Unlock()
		got := make(chan string, 1)
		ask := func(what string) *store.Letter {
			go func() {
				reply, err := a.Mail().Ask(t.Context(), b.self(), "x", []byte(what))
				got <- fmt.Sprintf("%s, %v", reply, err)
			}()
			return <-asked
		}
		ask("first").Reply([]byte("true"))
		if reply := <-got; reply != "true, <nil>" {
			t.Errorf("the reply is %s", reply)
		}
		genuine := s.letter("true").Data

		l := ask("second")
		address := s.letter("second").Reply
		for _, data := range [][]byte{nil, []byte("\x01forged"), append([]byte{letter.Version}, "forged"...), genuine, bytes.Replace(genuine, []byte("true"), []byte("lies"), 1), make([]byte, 200)} {
			s.send(address, "", data)
		}
		synctest.Wait()
		l.Reply([]byte("also true"))
		if reply := <-got; reply != "also true, <nil>" {
			t.Errorf("the reply is %s", reply)
		}
	})
}

// ringReads counts how often the key ring is listed.
func (s *stranger) ringReads() func() int64 {
	var n atomic.Int64
	must[*nats.Subscription](s.t)(s.Subscribe("$JS.API.STREAM.INFO.troupe_keys", func(m *nats.Msg) {
		if bytes.Contains(m.Data, []byte("keys.*")) { // Nodes also ask whether the stream is there.
			n.Add(1)
		}
	}))
	change(s.t, s.Flush())
	return func() int64 {
		synctest.Wait()
		return n.Load()
	}
}

// epochOf changes the epoch in a letter.
func epochOf(m *nats.Msg, epoch uint64) []byte {
	h, data, err := letter.Read(m.Data)
	if err != nil {
		panic(err)
	}
	h.Epoch = epoch
	return append(letter.Append(nil, h, data), make([]byte, letter.MACSize)...)
}

// TestForgedEpochs: made-up numbers of keys have the ring read a bounded number of times, and a key that is made meanwhile is known in time.
func TestForgedEpochs(t *testing.T) {
	when.Unraced(t, "half a minute of virtual time under the race detector")
	rotate := 4 * time.Minute
	kit.BubbleNATS(t, nil, func(t *testing.T, v *kit.VirtualNATS) {
		rotating := func(name string) *mailbox {
			b := &mailbox{Node: open(t, Options{Node: name, KeyRotate: rotate, Remote: Remote{URL: v.Line(name).URL()}})}
			b.listen()
			return b
		}
		a, b := rotating("a"), rotating("b")
		time.Sleep(time.Second)
		s := newStranger(t, v)
		a.Mail().Tell("lists", []byte("to all"))
		m := s.letter("to all")
		b.letters()
		reads := s.ringReads()
		before := reads()
		flood := func(d time.Duration) {
			for end := time.Now().Add(d); time.Now().Before(end); time.Sleep(time.Second) {
				for _, epoch := range []uint64{b.keyring.newestEpoch() + 1, 1, math.MaxUint64} {
					s.send(m.Subject, "", epochOf(m, epoch))
				}
			}
		}
		flood(3 * time.Minute)
		if n := reads() - before; n < 2 || n > 2*12 { // of both nodes
			t.Errorf("letters with made-up numbers of keys, for three minutes, had the key ring listed %d times", n)
		}
		b.want(t, "the flood", nil, nil)
		epoch := b.keyring.newestEpoch()
		flood(rotate)
		if b.keyring.newestEpoch() == epoch {
			t.Fatal("no new key was made")
		}
		for i := range 30 {
			a.Mail().Tell("lists", fmt.Append(nil, i))
			flood(4 * time.Second)
		}
		if got, missed := b.letters(); len(got) != 30 || len(missed) > 0 {
			t.Errorf("while keys change and numbers are made up, %d of 30 letters came, and some were missed of %q", len(got), missed)
		}
		if h, _, _ := letter.Read(s.letter("29").Data); h.Epoch == epoch {
			t.Error("the new key is not used")
		}
	})
}

// TestFloodWhileTheRingIsRead: what nodes send comes once and in order, while the key ring is being read and a stranger fills the room for letters whose keys
// are not known.
func TestFloodWhileTheRingIsRead(t *testing.T) {
	fleet(t, 2, func(t *testing.T, v *kit.VirtualNATS, nodes ...*mailbox) {
		a, b := nodes[0], nodes[1]
		s := newStranger(t, v)
		forge := func(size, times int) {
			h := letter.Head{Form: letter.All, Kind: "x", Node: "a", Boot: "b", Epoch: math.MaxUint64}
			for range times {
				s.send("troupe.all", "", append(letter.Append(nil, h, make([]byte, size)), make([]byte, letter.MACSize)...))
			}
		}
		b.reads.busy(t, 1, func() { time.Sleep(3 * time.Second) })
		forge(10, 1)
		time.Sleep(100 * time.Millisecond)
		var all, one []string
		send := func(n int) {
			for range n {
				a.Mail().Tell("lists", fmt.Append(nil, len(all)))
				a.Mail().Send(b.self(), "x", fmt.Append(nil, len(one)))
				all, one = append(all, fmt.Sprint("a lists ", len(all))), append(one, fmt.Sprint("a x ", len(one)))
			}
		}
		send(5)
		forge(900_000, maxWaitingBytes/900_000)
		forge(1000, 900)
		send(200)
		time.Sleep(4 * time.Second)
		got, missed := b.letters()
		var gotAll, gotOne []string
		for _, l := range got {
			if strings.HasPrefix(l, "a lists ") {
				gotAll = append(gotAll, l)
			} else {
				gotOne = append(gotOne, l)
			}
		}
		if !slices.Equal(gotAll, all) || !slices.Equal(gotOne, one) || missed != nil {
			t.Errorf("%d letters to all came, %d to one, of %d each, and some of %q were missed; the first are %q and %q", len(gotAll), len(gotOne), len(all), missed, gotAll[:min(6, len(gotAll))], gotOne[:min(6, len(gotOne))])
		}
		if st := b.Mail().Stats(); st.Replayed != 0 || st.Forged == 0 {
			t.Errorf("%d letters count as replayed and %d as forged", st.Replayed, st.Forged)
		}
	})
}

// TestLettersOfANewKeyComeInOrder: letters wait for the key ring, and those that come when the key has become known, for those that wait.
func TestLettersOfANewKeyComeInOrder(t *testing.T) {
	fleet(t, 2, func(t *testing.T, _ *kit.VirtualNATS, nodes ...*mailbox) {
		a, b := nodes[0], nodes[1]
		ring := b.keyring
		know := func(keys map[uint64]sealKey, current uint64) (map[uint64]sealKey, uint64) {
			ring.mu.Lock()
			defer ring.mu.Unlock()
			keys, ring.keys = ring.keys, keys
			current, ring.current = ring.current, current
			return keys, current
		}
		var all []string
		send := func(n int) {
			for range n {
				a.Mail().Tell("lists", fmt.Append(nil, len(all)))
				all = append(all, fmt.Sprint("a lists ", len(all)))
			}
			synctest.Wait()
		}
		keys, current := know(map[uint64]sealKey{}, 0)
		b.reads.busy(t, 1, func() { time.Sleep(2 * time.Second) })
		send(5)
		know(keys, current) // as by a read that somebody else has begun
		send(100)
		b.want(t, "before the ring was read", nil, nil)
		time.Sleep(3 * time.Second)
		b.want(t, "then", all, nil)
	})
}

// TestRotatedLetters: letters come whichever node makes the next key, and to a node that knows it only by them.
func TestRotatedLetters(t *testing.T) {
	when.Unraced(t, "virtual time that is long under the race detector")
	kit.BubbleNATS(t, nil, func(t *testing.T, v *kit.VirtualNATS) {
		at := func(name string, rotate time.Duration) *mailbox {
			b := &mailbox{Node: open(t, Options{Node: name, KeyRotate: rotate, Remote: Remote{URL: v.Line(name).URL()}})}
			b.listen()
			return b
		}
		a, b := at("a", time.Minute), at("b", time.Hour) // b makes no key
		for minute := range 5 {
			time.Sleep(time.Minute)
			a.Mail().Tell("lists", fmt.Append(nil, minute))
			b.want(t, fmt.Sprint("after ", minute+1, " min"), []string{fmt.Sprint("a lists ", minute)}, nil)
			reply, err := b.Mail().Ask(t.Context(), a.self(), "echo", []byte("x"))
			if string(reply) != "re: x" || err != nil {
				t.Fatalf("after %d min: %q, %v", minute+1, reply, err)
			}
			a.letters()
		}
		if a, b := a.Mail().Stats(), b.Mail().Stats(); a.Forged+a.Replayed+a.Gaps+b.Forged+b.Replayed+b.Gaps != 0 {
			t.Errorf("stats %+v, %+v", a, b)
		}
	})
}

// TestEarlierRelease: nodes whose letters have no MAC and this release refuse to share a store, and either says why.
func TestEarlierRelease(t *testing.T) {
	kit.BubbleNATS(t, nil, func(t *testing.T, v *kit.VirtualNATS) {
		a := must[*Node](t)(tryOpen(t, v, "a", func(*Options) {}))
		format := func(set string) string {
			var info struct {
				Config map[string]any `json:"config"`
			}
			change(t, a.askAPI(t.Context(), "STREAM.INFO.troupe_nodes", nil, &info))
			metadata := info.Config["metadata"].(map[string]any)
			if set != "" {
				metadata[formatKey] = set
				change(t, a.askAPI(t.Context(), "STREAM.UPDATE.troupe_nodes", info.Config, nil))
			}
			return metadata[formatKey].(string)
		}
		// The release before knows 1 or 2 here, and ends with a sentence that names both.
		if got := format(""); got != fleetFormat || got == "1" || got == "2" {
			t.Errorf("the stream of nodes has format %s", got)
		}

		// A store of that release, while a node of it is there.
		format("2") // of a store with shards
		rev := must[uint64](t)(a.Create(t.Context(), "nodes.old", []byte(`{"boot":"x","since":"2026-01-01T00:00:00Z","settings":{"replay-age":"10m0s"}}`), time.Hour))
		n, err := tryOpen(t, v, "b", func(*Options) {})
		for _, want := range []string{"node old", "version 1", "versions 2 to 2", "end all processes of that release"} {
			if err == nil || !strings.Contains(err.Error(), want) {
				t.Fatalf("got %v, %v, want %q in it", n, err, want)
			}
		}
		wantErr(t, "beside a node of an earlier release", err, ErrRemote)
		if got := format(""); got != "2" {
			t.Errorf("a node that was refused changed the format to %s", got)
		}
		// Once it is gone, its store is taken.
		change(t, a.Delete(t.Context(), "nodes.old", rev))
		b := must[*Node](t)(tryOpen(t, v, "b", func(*Options) {}))
		if got := format(""); got != fleetFormat {
			t.Errorf("the store of an earlier release has format %s", got)
		}
		format("4")
		n, err = tryOpen(t, v, "c", func(*Options) {})
		if err == nil || !strings.Contains(err.Error(), `has format "4", this release knows 3`) {
			t.Errorf("a newer fleet: %v, %v", n, err)
		}
		for _, n := range []*Node{a, b} {
			change(t, n.Close(context.Background()))
		}
	})
}
