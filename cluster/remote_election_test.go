package cluster

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/nats-io/nats-server/v2/server"
	"github.com/nats-io/nats.go/jetstream"

	"github.com/troupe-run/troupe/internal/store"
	"github.com/troupe-run/troupe/test/kit"
	"github.com/troupe-run/troupe/test/kit/when"
)

// TestRemoteElection ends one NATS server after the other, the leader of the tasks first, and starts each again, while two nodes write. What was
// acknowledged stays, no record is missing for a moment, and a guard that was lost stays lost.
func TestRemoteElection(t *testing.T) {
	when.Full(t, "real servers end and come back")
	when.Long(t, "elections take seconds")
	t.Parallel()
	c := kit.StartNATS(t, 3, nil)
	nodes := []*Node{remote(t, c, "a"), remote(t, c, "b")}
	ctx := t.Context()
	var done atomic.Bool
	var all sync.WaitGroup
	var writes, unknown atomic.Int64
	for w := range 4 {
		task := fmt.Sprintf("anon.demo.t%d", w)
		n := nodes[w%2]
		rev, err := n.Create(ctx, "task."+task, []byte("0"), time.Hour)
		if err != nil {
			t.Fatal(err)
		}
		all.Go(func() {
			last := 0 // the newest value that may be stored
			sure := 0 // the newest value that was acknowledged
			for i := 1; !done.Load(); i++ {
				last = i
				next, err := n.Update(ctx, "task."+task, fmt.Append(nil, i), rev, time.Hour)
				if err == nil {
					if rev, sure = next, i; i%10 == 0 {
						if err := n.PutPart(ctx, task, "late", []byte("x"), rev-1, time.Hour); err == nil {
							t.Errorf("a part was stored under an old revision of task %d", w)
						}
					}
					writes.Add(1)
					continue
				}
				unknown.Add(1)
				for { // what is stored is the newest value that was acknowledged, or one whose outcome is unknown
					var data []byte
					if data, rev, err = n.Get(ctx, "task."+task); err == nil {
						var have int
						_, _ = fmt.Sscan(string(data), &have)
						if have < sure || have > last {
							t.Errorf("task %d has value %d, after %d was acknowledged and %d sent", w, have, sure, last)
						}
						sure = have
						break
					}
					if errors.Is(err, store.ErrNotFound) {
						t.Errorf("task %d is not there: %v", w, err)
						return
					}
				}
			}
		})
	}
	for round := range 3 {
		i := leaderOf(c, "troupe_tasks")
		if round > 0 || i < 0 {
			i = round
		}
		before := writes.Load()
		c.Stop(i)
		wait(t, "writes without one server", func() bool { return writes.Load() > before+100 })
		c.Start(t, i)
		wait(t, "the server to be back", func() bool {
			s := c.Servers[i]
			return s.JetStreamEnabled() && s.JetStreamIsCurrent()
		})
	}
	done.Store(true)
	all.Wait()
	t.Logf("%d writes, %d of unknown outcome or refused", writes.Load(), unknown.Load())
}

// leaderOf returns the server that leads a stream, or -1.
func leaderOf(c *kit.NATS, stream string) int {
	for i, s := range c.Servers {
		if s != nil && s.JetStreamIsStreamLeader(server.DEFAULT_GLOBAL_ACCOUNT, stream) {
			return i
		}
	}
	return -1
}

// wait waits until something holds.
func wait(t *testing.T, what string, holds func() bool) {
	t.Helper()
	late := time.After(40 * time.Second)
	for !holds() {
		select {
		case <-late:
			t.Fatalf("no %s in time", what)
		case <-time.After(10 * time.Millisecond):
		}
	}
}

// TestMailAcrossServers has nodes on different servers of a cluster speak to each other, also once the server of one is gone.
func TestMailAcrossServers(t *testing.T) {
	when.Full(t, "real servers end and come back")
	when.Long(t, "three servers")
	t.Parallel()
	c := kit.StartNATS(t, 3, nil)
	urls := strings.Split(c.URL(), ",")
	a := &mailbox{Node: open(t, Options{Node: "a", Remote: Remote{URL: urls[0]}})}
	b := &mailbox{Node: open(t, Options{Node: "b", Remote: Remote{URL: urls[1]}})}
	a.listen()
	b.listen()
	// What a node subscribes to is known on the other servers a moment later.
	asks := func(from, to *mailbox) func() bool {
		return func() bool {
			reply, err := from.Mail().Ask(t.Context(), to.self(), "echo", []byte("x"))
			return err == nil && string(reply) == "re: x"
		}
	}
	eventually(t, "a asks b", asks(a, b))
	eventually(t, "b asks a", asks(b, a))
	eventually(t, "they hear each other", func() bool { return len(a.Mail().Others()) == 1 && len(b.Mail().Others()) == 1 })
	c.Stop(1)
	eventually(t, "a asks b again", asks(a, b))
	eventually(t, "b asks a again", asks(b, a))
	a.Mail().Tell("lists", nil)
	eventually(t, "b is told, or knows that it missed something", func() bool {
		b.mu.Lock()
		defer b.mu.Unlock()
		return slices.Contains(b.got, "a lists ") || len(b.missed) > 0
	})
	eventually(t, "b can say who is gone", func() bool {
		gone, err := b.Gone(t.Context(), store.Address{Node: "a", Boot: "other"})
		return gone && err == nil
	})
}

// TestRemoteReach looks for a stream that nobody serves at the moment, as between two leaders. What a start needs of it waits until somebody
// does, and says which it was when nobody comes.
func TestRemoteReach(t *testing.T) {
	when.Full(t, "real servers end and come back")
	t.Parallel()
	c := kit.StartNATS(t, 1, nil)
	n := remote(t, c, "a")
	js, err := jetstream.New(n.conn)
	if err != nil {
		t.Fatal(err)
	}
	for _, tt := range []struct {
		stream string
		needs  func(context.Context) error
	}{
		{work, (&agreement{Server: n.Server}).reachStreams},
		{"nodes", func(ctx context.Context) error { return newLease(n.Members).registerNode(ctx) }},
	} {
		s, err := js.Stream(t.Context(), n.streamName(tt.stream))
		if err != nil {
			t.Fatal(err)
		}
		config := s.CachedInfo().Config
		if err := js.DeleteStream(t.Context(), config.Name); err != nil {
			t.Fatal(err)
		}
		named := func(err error) bool {
			return err != nil && (strings.Contains(err.Error(), "no responders") || strings.Contains(err.Error(), "not found"))
		}
		for patience := 300 * time.Millisecond; ; patience *= 2 { // on a busy machine the server says nothing in so little time
			short, cancel := context.WithTimeout(t.Context(), patience)
			err := tt.needs(short)
			cancel()
			if named(err) {
				break
			}
			if err == nil || patience > 10*time.Second {
				t.Fatalf("%s is not there: %v", tt.stream, err)
			}
		}
		done := make(chan error, 1)
		go func() { done <- tt.needs(t.Context()) }()
		select {
		case err := <-done:
			t.Errorf("%s is not there: nothing waits for it: %v", tt.stream, err)
			done <- nil
		case <-time.After(100 * time.Millisecond):
		}
		if _, err := js.CreateStream(t.Context(), config); err != nil {
			t.Fatal(err)
		}
		if err := <-done; err != nil {
			t.Errorf("%s is there again: %v", tt.stream, err)
		}
	}
}
