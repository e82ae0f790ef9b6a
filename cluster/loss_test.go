package cluster

import (
	"errors"
	"log/slog"
	"slices"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/nats-io/nats.go/jetstream"

	"github.com/troupe-run/troupe/internal/store"
	"github.com/troupe-run/troupe/test/kit"
)

// TestStoreComesBackEmpty: nodes whose NATS server lost its disk go on with an empty store, without a new start, and say what is lost.
func TestStoreComesBackEmpty(t *testing.T) {
	kit.BubbleNATS(t, nil, func(t *testing.T, v *kit.VirtualNATS) {
		var log syncBuffer
		var nodes []*mailbox
		for _, name := range []string{"a", "b"} {
			o := Options{Node: name, MaxStore: 1 << 30, Remote: Remote{URL: v.Line(name).URL()}, Log: slog.New(slog.NewTextHandler(&log, nil))}
			b := &mailbox{Node: open(t, o)}
			b.listen()
			nodes = append(nodes, b)
		}
		a, b := nodes[0], nodes[1]
		rev := must[uint64](t)(a.Create(t.Context(), testKey, []byte("x"), time.Hour))
		sealed := must[[]byte](t)(a.Keys().Seal([]byte("x"), nil))
		tag := a.Keys().Tag([]byte("id"))
		size := must[StreamStats](t)(a.fillOfKind(t.Context(), "sessions")).MaxBytes

		v.Empty(t)
		a.connected()
		b.connected()
		time.Sleep(7 * time.Second)
		if _, err := a.Create(t.Context(), testKey, nil, time.Hour); err == nil || !a.Suspended() {
			t.Errorf("before it is certain that the streams are gone: %v, suspended %v", err, a.Suspended())
		}
		time.Sleep(20 * time.Second)
		synctest.Wait()
		for _, n := range nodes {
			if n.Suspended() || n.Outage() != nil || n.Silent() != "" {
				t.Errorf("%s is suspended: %v, %v, silent %q", n.Name(), n.Suspended(), n.Outage(), n.Silent())
			}
			if got := n.Lost(); got != uint64(len(n.kinds)) {
				t.Errorf("%s counts %d lost streams, want %d", n.Name(), got, len(n.kinds))
			}
		}
		for _, want := range []string{"were lost while this process ran", "all sessions", "troupe_nodes"} {
			if !strings.Contains(log.String(), want) {
				t.Errorf("the log does not say %q", want)
			}
		}
		// What is gone is gone, and a write that knew it is refused.
		if _, _, err := b.Get(t.Context(), testKey); !errors.Is(err, store.ErrNotFound) {
			t.Errorf("the session of before: %v", err)
		}
		_, err := a.Update(t.Context(), testKey, []byte("y"), rev, time.Hour)
		wantErr(t, "an update of what is lost", err, store.ErrConflict)
		_, err = b.Keys().Open(sealed, nil)
		wantErr(t, "what was sealed before", err, store.ErrSealed)
		if again := b.Keys().Tag([]byte("id")); string(again) != string(tag) {
			t.Error("ids have other tags")
		}
		// All of it works again, as large as it was.
		must[uint64](t)(a.Create(t.Context(), testKey, []byte("new"), time.Hour))
		if data, _, err := b.Get(t.Context(), testKey); string(data) != "new" || err != nil {
			t.Errorf("a new session is %q, %v", data, err)
		}
		if got := must[StreamStats](t)(b.fillOfKind(t.Context(), "sessions")).MaxBytes; got != size {
			t.Errorf("the stream of sessions may have %d bytes, want %d", got, size)
		}
		plain, err := b.Keys().Open(must[[]byte](t)(a.Keys().Seal([]byte("y"), nil)), nil)
		if string(plain) != "y" || err != nil {
			t.Errorf("opened %q, %v", plain, err)
		}
		a.letters()
		b.letters()
		a.Mail().Tell("lists", []byte("hello"))
		b.want(t, "letters", []string{"a lists hello"}, nil)
		// Who starts now joins them.
		c := listening(t, v, "c")
		if got := c.others(); got != "a b" {
			t.Errorf("a new node hears %q", got)
		}
	})
}

// TestStreamComesBackOtherwise: a store that another process made anew with another number of shards is not used, and the node says so for good.
func TestStreamComesBackOtherwise(t *testing.T) {
	kit.BubbleNATS(t, nil, func(t *testing.T, v *kit.VirtualNATS) {
		var log syncBuffer
		a := open(t, Options{Node: "a", Shards: 2, Remote: Remote{URL: v.Line("a").URL()}, Log: slog.New(slog.NewTextHandler(&log, nil))})
		js := must[jetstream.JetStream](t)(jetstream.New(a.conn))
		nodes := a.streamConfig(&a.kinds[0])
		nodes.Metadata[shardsKey] = "3"
		change(t, js.DeleteStream(t.Context(), nodes.Name))
		must[jetstream.Stream](t)(js.CreateStream(t.Context(), nodes))
		time.Sleep(time.Minute)
		if o := a.Outage(); o == nil || !o.Lost || o.String() != "a part of the store is missing" {
			t.Errorf("the outage is %+v", o)
		}
		if got := strings.Count(log.String(), "another number of event shards"); got != 1 {
			t.Errorf("the log says it %d times", got)
		}
	})
}

// TestALossIsSaidThoughAnotherStreamIsSilent: what was made again counts as lost, and the lease learns of it, though a stream behind it in the list
// does not answer at the same time.
func TestALossIsSaidThoughAnotherStreamIsSilent(t *testing.T) {
	kit.BubbleNATS(t, nil, func(t *testing.T, v *kit.VirtualNATS) {
		var log syncBuffer
		a := open(t, Options{Node: "a", Remote: Remote{URL: v.Line("a").URL()}})
		// What looks is a copy, for which the stream of tasks has a name that no server has an answer for.
		n := joinParts(&wire{opts: a.opts, prefix: a.prefix, shards: a.shards, log: slog.New(slog.NewTextHandler(&log, nil)), outages: a.outages, reads: a.reads})
		n.lease, n.keyring = &lease{}, a.keyring
		n.kinds = slices.Clone(a.kinds)
		n.kinds[slices.IndexFunc(n.kinds, func(k kind) bool { return k.name == tasks })].name = "no answer"
		l := &n.losses
		before := time.Now().Add(-time.Hour)
		l.created = map[string]time.Time{"nodes": before, "keys": before, "sessions": before}
		l.look(t.Context(), n.Members, time.Now())
		if n.Lost() != 3 || !n.lease.again.Load() || strings.Count(log.String(), "were lost while this process ran") != 1 {
			t.Errorf("%d streams are lost, the lease knows of it: %v, and the log says %q", n.Lost(), n.lease.again.Load(), log.String())
		}
		l.look(t.Context(), n.Members, time.Now().Add(time.Minute))
		if n.Lost() != 3 {
			t.Errorf("later %d streams are lost", n.Lost())
		}
	})
}

// TestKeysAreRestoredLater: where the stream of keys is there again and takes nothing yet, the ring and the key for tags are stored as soon as it does.
func TestKeysAreRestoredLater(t *testing.T) {
	kit.BubbleNATS(t, nil, func(t *testing.T, v *kit.VirtualNATS) {
		var log syncBuffer
		a := open(t, Options{Node: "a", Remote: Remote{URL: v.Line("a").URL()}, Log: slog.New(slog.NewTextHandler(&log, nil))})
		tag := a.Keys().Tag([]byte("id"))
		js := must[jetstream.JetStream](t)(jetstream.New(a.conn))
		keys := must[jetstream.Stream](t)(js.Stream(t.Context(), a.streamName("keys"))).CachedInfo().Config
		full := keys
		full.MaxBytes = 1
		time.Sleep(time.Second) // streams are told apart by the time at which they were made
		change(t, js.DeleteStream(t.Context(), keys.Name))
		must[jetstream.Stream](t)(js.CreateStream(t.Context(), full))
		time.Sleep(30 * time.Second)
		if n := strings.Count(log.String(), "the key ring was lost, and is not there yet"); a.Lost() != 1 || n != 1 {
			t.Fatalf("%d streams are lost, and the log says %d times that keys are", a.Lost(), n)
		}
		must[jetstream.Stream](t)(js.UpdateStream(t.Context(), keys))
		time.Sleep(10 * time.Second)
		synctest.Wait()
		key, _, err := a.Get(t.Context(), tagRecord)
		if known := a.keyring.tagKey.Load(); err != nil || string(key) != string(*known) {
			t.Errorf("the store has the key for tags: %v, %v", string(key) == string(*known), err)
		}
		b := open(t, Options{Node: "b", Remote: Remote{URL: v.Line("b").URL()}})
		if again := b.Keys().Tag([]byte("id")); string(again) != string(tag) {
			t.Error("a node that starts later makes other tags")
		}
	})
}
