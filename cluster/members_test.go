package cluster

import (
	"encoding/binary"
	"errors"
	"fmt"
	"slices"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/troupe-run/troupe/internal/store"
	"github.com/troupe-run/troupe/test/kit"
	"github.com/troupe-run/troupe/test/kit/when"
)

// TestBeats: what a heart says is read as it was said, and what an older or a newer release says as far as it can be.
func TestBeats(t *testing.T) {
	t.Parallel()
	full := beat{entry: 300, serves: 1 << 63, age: 1500, load: &Load{Draining: true, Calls: 7, Streams: 1 << 20, Sessions: 3, Release: "v0.2.0"}, programs: 5}
	before := full
	before.programs = 0
	text := func(b beat) string {
		if b.load == nil {
			return fmt.Sprint(b.entry, b.serves, b.age, " none ", b.programs)
		}
		return fmt.Sprint(b.entry, b.serves, b.age, *b.load, b.programs)
	}
	two := binary.AppendUvarint(binary.AppendUvarint(nil, 300), 9)
	for what, c := range map[string]struct {
		data []byte
		want beat
	}{
		"all":                {full.encode(), full},
		"more than we know":  {append(full.encode(), 1, 2, 3), full},
		"the first release":  {two, beat{entry: 300, serves: 9}},
		"no load":            {beat{entry: 1, age: 2, programs: 3}.encode(), beat{entry: 1, age: 2, programs: 3}},
		"a release before":   {full.encode()[:len(full.encode())-1], before},
		"cut off":            {full.encode()[:len(full.encode())-2], beat{entry: full.entry, serves: full.serves, age: full.age}},
		"nothing":            {nil, beat{}},
		"a length that lies": {append([]byte{1, 0, 0}, 1, 0, 0, 0, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 1), beat{entry: 1}},
		"a big number":       {append([]byte{0, 0, 0}, 1, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 1, 0, 0, 0), beat{load: &Load{Calls: 1<<31 - 1}}},
	} {
		if got := readBeat(c.data); text(got) != text(c.want) {
			t.Errorf("%s: got %s, want %s", what, text(got), text(c.want))
		}
	}
	long := beat{load: &Load{Release: strings.Repeat("v", 1000)}}
	if got := readBeat(long.encode()); got.load == nil || len(got.load.Release) != maxRelease {
		t.Errorf("a long release: %+v", got.load)
	}
}

// TestMembers: a node that is there is listed with what it says, one that does not renew its lease is late and then gone, and one that has
// ended is forgotten.
func TestMembers(t *testing.T) {
	when.Unraced(t, "virtual time that is long under the race detector")
	fleet(t, 3, func(t *testing.T, v *kit.VirtualNATS, nodes ...*mailbox) {
		a, b, c := nodes[0], nodes[1], nodes[2]
		b.Mail().Says(func() Load { return Load{Calls: 5, Release: "r"} })
		time.Sleep(1500 * time.Millisecond)
		synctest.Wait()
		find := func(name string) *Member {
			all := must[[]Member](t)(a.ListMembers(t.Context()))
			for i := range all {
				if all[i].Node == name {
					return &all[i]
				}
			}
			return nil
		}
		own := find("a")
		if own == nil || !own.Self || !own.Held || own.Heard != 0 || own.Left <= 0 {
			t.Errorf("the node itself is %+v", own)
		}
		m := find("b")
		if m == nil || m.Self || !m.Held || m.Heard < 0 || m.Heard > time.Second || m.Left <= 0 || m.Left > b.opts.Lease || m.Since.IsZero() || m.Load == nil || m.Load.Calls != 5 || m.Load.Release != "r" {
			t.Fatalf("b is %+v", m)
		}
		if m := find("c"); m == nil || m.Load != nil {
			t.Errorf("c, which does not say, is %+v", m)
		}

		leases := func(what string, held, late int) {
			t.Helper()
			if h, l := a.Leases(); h != held || l != late {
				t.Errorf("%s: %d have their lease and %d are late, want %d and %d", what, h, l, held, late)
			}
		}
		leases("all are there", 3, 0)
		if d := b.SuspendedFor(); d != 0 {
			t.Errorf("b was suspended for %v", d)
		}

		v.Line("b").Cut()
		lease := b.opts.Lease
		time.Sleep(lease * 3 / 5)
		synctest.Wait()
		if m := find("b"); m == nil || !m.Held || m.Left > lease*2/5 || m.Left <= 0 || m.Heard < lease/2 {
			t.Errorf("b, which is cut off, is %+v", m)
		}
		time.Sleep(lease)
		synctest.Wait()
		if m := find("b"); m == nil || m.Held || m.Load == nil {
			t.Errorf("b, whose lease is over, is %+v", m)
		}
		leases("b is cut off", 2, 1)
		if d := b.SuspendedFor(); d < lease/2-time.Second || d > lease {
			t.Errorf("b was suspended for %v", d)
		}
		next := open(t, Options{Node: "b", Remote: Remote{URL: v.Line("next").URL()}})
		for _, m := range must[[]Member](t)(a.ListMembers(t.Context())) {
			if m.Node == "b" && m.Boot != next.Boot() {
				t.Errorf("beside its next boot, b is still %+v", m)
			}
		}
		next.Mail().Listen(func(*store.Letter) {}, func(store.Address) {})
		time.Sleep(time.Millisecond)
		synctest.Wait()
		leases("b has come again", 3, 0)
		if err := next.Close(t.Context()); err != nil {
			t.Error(err)
		}
		if err := c.Close(t.Context()); err != nil {
			t.Error(err)
		}
		time.Sleep(time.Second)
		synctest.Wait()
		if m := find("c"); m != nil {
			t.Errorf("c, which has ended, is %+v", m)
		}
		time.Sleep(memberSilence)
		if m := find("b"); m != nil {
			t.Errorf("b is not forgotten: %+v", m)
		}
		v.Line("b").Heal()
		b.connected()
		time.Sleep(lease)
		if d := b.SuspendedFor(); d < memberSilence || d > memberSilence+3*lease {
			t.Errorf("after all, b was suspended for %v", d)
		}
	})
}

// TestStoredSessions: sessions are listed in the order of their last change by pages, and found by what is known of their ids.
func TestStoredSessions(t *testing.T) {
	t.Parallel()
	n := open(t, Options{})
	ctx := t.Context()
	revs := make(map[string]uint64)
	for i := range 5 {
		id := fmt.Sprintf("id%d", i)
		revs[id] = must[uint64](t)(n.Create(ctx, "session.ten.srv."+id, []byte(`{}`), time.Hour))
	}
	must[uint64](t)(n.Update(ctx, "session.ten.srv.id1", []byte(`{"n":1}`), revs["id1"], time.Hour))
	if err := n.Delete(ctx, "session.ten.srv.id3", 0); err != nil {
		t.Fatal(err)
	}
	var got []string
	for from := uint64(0); ; {
		page := must[[]StoredSession](t)(n.Sessions(ctx, from, 2))
		for _, s := range page {
			got = append(got, s.Tenant+"."+s.Server+"."+s.ID+string(s.Data))
			from = s.Rev + 1
		}
		if len(page) < 2 {
			break
		}
	}
	if want := "ten.srv.id0{} ten.srv.id2{} ten.srv.id4{} ten.srv.id1{\"n\":1}"; strings.Join(got, " ") != want {
		t.Errorf("listed %q, want %q", got, want)
	}
	is := func(id string) func(string) bool { return func(s string) bool { return s == id } }
	if s, err := n.FindSession(ctx, is("id1")); err != nil || s.ID != "id1" || s.Tenant != "ten" || string(s.Data) != `{"n":1}` {
		t.Errorf("found %+v, %v", s, err)
	}
	for _, id := range []string{"id3", "none"} {
		if s, err := n.FindSession(ctx, is(id)); !errors.Is(err, store.ErrNotFound) {
			t.Errorf("%s: found %+v, %v", id, s, err)
		}
	}
	for i := range 3 {
		must[uint64](t)(n.OpenStream(ctx, fmt.Sprintf("ten.srv.id1.st%d", i), []byte(`{"node":"x"}`), nil, time.Hour))
	}
	if err := n.EndStream(ctx, "ten.srv.id1.st2"); err != nil {
		t.Fatal(err)
	}
	if all, total, err := n.Streams(ctx, "ten.srv.id1", 9); err != nil || len(all) != 2 || total != 2 || string(all[0].Data) != `{"node":"x"}` {
		t.Errorf("streams %+v of %d, %v", all, total, err)
	}
	if all, total, err := n.Streams(ctx, "ten.srv.id1", 1); err != nil || len(all) != 1 || total < 2 {
		t.Errorf("one stream: %+v of %d, %v", all, total, err)
	}
	must[uint64](t)(n.putMessage(ctx, n.eventSubject("ten.srv.id1.st3", "open"), []byte("\x02{}"), 0, guard{})) // of a newer release
	if all, total, err := n.Streams(ctx, "ten.srv.id1", 9); err != nil || len(all) != 2 || total != 3 {
		t.Errorf("beside a record of a newer release: streams %+v of %d, %v", all, total, err)
	}
	if _, _, err := n.Streams(ctx, "ten.>.id1", 1); err == nil {
		t.Error("a wildcard is a session")
	}
}

// TestMissingReplicas: a server that is away is missing in all streams, until it is back.
func TestMissingReplicas(t *testing.T) {
	when.Long(t, "elections take seconds")
	t.Parallel()
	c := kit.StartNATS(t, 3, nil)
	n := remote(t, c, "a")
	missing := func() (all int) {
		s := n.collectStats(t.Context())
		if s.Streams == nil {
			return -1
		}
		for _, st := range s.Streams {
			all += st.Missing
		}
		return all
	}
	wait(t, "all replicas to be there", func() bool { return missing() == 0 })
	c.Stop(0)
	wait(t, "a replica of each stream to be missing", func() bool { return missing() == len(n.collectStats(t.Context()).Streams) })
	c.Start(t, 0)
	wait(t, "all replicas to be back", func() bool { return missing() == 0 })
}

// TestSteady: a node whose renewals are late knows nothing of others, though its lease is not over, until it has had it for a while again.
func TestSteady(t *testing.T) {
	fleet(t, 1, func(t *testing.T, v *kit.VirtualNATS, nodes ...*mailbox) {
		n, line := nodes[0], v.Line("a")
		is := func(when string, want bool) {
			t.Helper()
			if n.Steady() != want || n.Suspended() {
				t.Errorf("%s, it is steady: %v, and suspended: %v", when, n.Steady(), n.Suspended())
			}
		}
		is("at first", false)
		time.Sleep(20 * time.Second)
		is("after 20 s", true)
		line.Break()
		time.Sleep(3500 * time.Millisecond)
		is("cut off for a while", false)
		line.Heal()
		time.Sleep(5 * time.Second)
		is("a moment after", false)
		time.Sleep(10 * time.Second)
		is("long after", true)
	})
}

// TestOneStreamIsSilent: a node knows that one of the streams that it needs is not there, though its lease is renewed.
func TestOneStreamIsSilent(t *testing.T) {
	for _, name := range needed {
		fleet(t, 1, func(t *testing.T, v *kit.VirtualNATS, nodes ...*mailbox) {
			n := nodes[0]
			time.Sleep(20 * time.Second)
			if got := n.Silent(); got != "" {
				t.Errorf("before, %s is silent", got)
			}
			at := slices.IndexFunc(n.kinds, func(k kind) bool { return k.wholeName() == name })
			if err := n.askAPI(t.Context(), "STREAM.DELETE."+n.streamName(n.kinds[at].name), nil, nil); err != nil {
				t.Fatal(err)
			}
			time.Sleep(silentFor - 2*time.Second)
			if got := n.Silent(); got != "" {
				t.Errorf("within 5 s, %s is silent", got)
			}
			time.Sleep(2*time.Second + lookEach)
			if got := n.Silent(); got != name || n.Suspended() {
				t.Errorf("without %s, %q is silent, suspended %v", name, got, n.Suspended())
			}
		})
	}
}
