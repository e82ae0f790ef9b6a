package actors

import (
	"fmt"
	"slices"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/troupe-run/troupe/internal/store"
	"github.com/troupe-run/troupe/mcp"
)

// hears opens a listener for a resource and the tools.
func (m *mate) hears(uris ...string) *heldConn {
	m.t.Helper()
	m.handler.listening = func() Listening { return Listening{Tools: true, URIs: slices.Clone(uris), Accepted: []byte(`{}`)} }
	c := &heldConn{}
	m.listenTo(nil, c)
	synctest.Wait()
	c.read()
	return c
}

// follower is a client that wants updates, with the node that it listens at.
type follower struct {
	name string
	conn *heldConn
}

// followers are a session and a listener at each node. The sessions subscribe at the node after that of their stream.
func (c *band) followers(uri string) (all []follower) {
	c.t.Helper()
	for i, m := range c.all {
		other := c.all[(i+1)%len(c.all)]
		session := other.begin("2025-11-25")
		all = append(all, follower{"a session at " + m.name, m.listen(session)}, follower{"a listener at " + m.name, m.hears(uri)})
		if err := other.peerOf(session).Subscribe(c.t.Context(), uri); err != nil {
			c.t.Fatal(err)
		}
		all = append(all, follower{"a connection at " + m.name, m.connect("192.0.2.3", "2024-11-05")})
		if err := m.peerOf(all[len(all)-1].conn.name).Subscribe(c.t.Context(), uri); err != nil {
			c.t.Fatal(err)
		}
	}
	return all
}

// TestUpdatesReachAllNodes has a resource change on one node: each subscriber hears it once, wherever it listens.
func TestUpdatesReachAllNodes(t *testing.T) {
	for _, tt := range []struct {
		uri   string
		below bool
		want  int
	}{{"x:1", false, 1}, {"x:1/2", true, 1}, {"x:1/2", false, 0}, {"x:2", true, 0}} {
		inBand(t, 3, Limits{}, func(t *testing.T, c *band) {
			all := c.followers("x:1")
			c.all[0].ResourceUpdated(c.all[0].svc, tt.uri, tt.below)
			c.all[0].ResourceUpdated(NewService("another", c.all[0].handler, Limits{}), "x:1", true)
			time.Sleep(2 * time.Second)
			for _, f := range all {
				if n := updates(f.conn.events()); n != tt.want {
					t.Errorf("%s, below %v: %s got %d updates, want %d", tt.uri, tt.below, f.name, n, tt.want)
				}
			}
		})
	}
}

// TestUpdatesOfAStreamReadElsewhere has the client read its standalone stream by way of a node that does not write it.
func TestUpdatesOfAStreamReadElsewhere(t *testing.T) {
	inBand(t, 3, Limits{}, func(t *testing.T, c *band) {
		a, b, other := c.all[0], c.all[1], c.all[2]
		name := a.begin("2025-11-25")
		first := b.listen(name)
		id := first.lastID()
		first.Cut()
		second := &heldConn{}
		in := other.input(name, "192.0.2.1", second)
		in.LastEventID = id
		go other.Get(other.svc, in, nil)
		time.Sleep(5 * time.Minute)
		a.post(name, ping)
		if err := a.peerOf(name).Subscribe(t.Context(), "x:1"); err != nil {
			t.Fatal(err)
		}
		second.read()
		a.ResourceUpdated(a.svc, "x:1", false)
		time.Sleep(time.Second)
		if n := updates(second.events()); n != 1 {
			t.Errorf("the client got %d updates, want 1", n)
		}
		a.remove(name)
		time.Sleep(2 * time.Second)
		if !second.ended() {
			t.Error("the stream outlives its session")
		}
	})
}

// TestUpdatesAreGathered changes resources fast: few messages go to the other nodes, and yet each subscriber hears of the last change.
func TestUpdatesAreGathered(t *testing.T) {
	inBand(t, 2, Limits{}, func(t *testing.T, c *band) {
		a, b := c.all[0], c.all[1]
		conn := b.hears("x:1", "x:2999")
		const changes = 1000
		for range changes {
			a.ResourceUpdated(a.svc, "x:1", false)
			time.Sleep(time.Millisecond)
		}
		if n := c.count(letterUpdated); n > 1+int(time.Second/tellPause) {
			t.Errorf("%d messages in a second", n)
		}
		time.Sleep(time.Second)
		conn.read()
		began := c.count(letterUpdated)
		a.ResourceUpdated(a.svc, "x:1", false)
		a.ResourceUpdated(a.svc, "x:1", false)
		time.Sleep(time.Second)
		if n := c.count(letterUpdated) - began; n != 2 || updates(conn.read()) != 2 {
			t.Errorf("%d messages for two changes at once", n)
		}
		began = c.count(letterUpdated)
		for i := range 3 * mostUpdates {
			a.ResourceUpdated(a.svc, fmt.Sprint("x:", i), false)
		}
		a.ResourceUpdated(a.svc, "x:"+strings.Repeat("1", mostURI), false)
		time.Sleep(3 * time.Second)
		if n := c.count(letterUpdated) - began; n > mostUpdates+3 {
			t.Errorf("%d messages for %d resources", n, 3*mostUpdates)
		}
		if got := strings.Join(conn.read(), "\n"); !strings.Contains(got, `"x:2999"`) {
			t.Errorf("the change of the last one was not told: %s", got)
		}
		time.Sleep(3 * time.Second)
		synctest.Wait()
		if n := len(a.nodeNews.sentUpdates.all); n != 0 {
			t.Errorf("%d updates are remembered", n)
		}
	})
}

// TestMissedNewsAreMadeGood loses what a node is told, and then has it learn that something was lost.
func TestMissedNewsAreMadeGood(t *testing.T) {
	inBand(t, 2, Limits{}, func(t *testing.T, c *band) {
		a, b := c.all[0], c.all[1]
		all := c.followers("x:1")
		name := a.begin("2025-11-25")
		call := c.running(b, name)
		c.let(lost, letterUpdated, letterSessionEnded, letterLists, letterTask, letterSessionChanged, letterUsage) // The next letter tells of the loss.
		a.ResourceUpdated(a.svc, "x:1", false)
		a.TellLists(a.svc, []ListChange{{List: "tools", Digest: "d"}})
		a.TellTask(&TaskChange{ID: "t"})
		a.remove(name)
		time.Sleep(2 * time.Second)
		for _, f := range all {
			want := 0
			if strings.HasSuffix(f.name, a.name) {
				want = 1
			}
			if got := updates(f.conn.read()); got != want {
				t.Fatalf("%s got %d updates, want %d: nothing was lost", f.name, got, want)
			}
		}
		a.fleet.broadcastLetter("heart", packet(""))
		if took, ok := until(2*time.Second, func() bool { return call.ctx.Err() != nil }); !ok {
			t.Errorf("a session whose end was lost lives after %v", took)
		}
		time.Sleep(2 * time.Second)
		synctest.Wait()
		for _, f := range all {
			got := f.conn.read()
			want := 0
			if strings.HasSuffix(f.name, b.name) {
				want = 1
			}
			lists := 0
			for _, m := range got {
				if strings.Contains(m, mcp.NotifyToolsListChanged) {
					lists++
				}
			}
			if updates(got) != want || lists != want {
				t.Errorf("%s got %d updates and %d changes of lists, want %d of each", f.name, updates(got), lists, want)
			}
		}
		if n := len(b.news.missed); n != 1 || len(a.news.missed) != 0 {
			t.Errorf("followers of tasks were told %d times", n)
		}
		// An old record is read before a session is served from it.
		if status, _ := b.post(name, ping).answer(); status != 404 {
			t.Errorf("answered %d", status)
		}
	})
}

// TestMissedNewsAreRepeatedOnceASecond loses messages all the time.
func TestMissedNewsAreRepeatedOnceASecond(t *testing.T) {
	inBand(t, 2, Limits{}, func(t *testing.T, c *band) {
		a, b := c.all[0], c.all[1]
		name := a.begin("2025-11-25")
		b.listen(name)
		for range 500 {
			b.nodeNews.onLettersMissed(store.Address{Node: a.name, Boot: a.boot})
			a.box.Tell(letterUpdated, []byte(`{"Server":"s"}`))
			time.Sleep(20 * time.Millisecond)
		}
		time.Sleep(5 * time.Second)
		synctest.Wait()
		for what, at := range map[string][]time.Time{"sessions": b.news.repeated, "tasks": b.news.missed} {
			if n := len(at); n < 5 || n > 11 {
				t.Errorf("%s: repeated %d times within 10 s", what, n)
			}
			for i := range at[1:] {
				if d := at[i+1].Sub(at[i]); d < repeatPause {
					t.Errorf("%s: repeated again after %v", what, d)
				}
			}
		}
	})
}

// TestNewsArrive tells of lists and tasks.
func TestNewsArrive(t *testing.T) {
	inBand(t, 3, Limits{}, func(t *testing.T, c *band) {
		a := c.all[0]
		lists := []ListChange{{List: "tools", Digest: "d"}, {List: "prompts", Digest: "e", Again: true}}
		a.TellLists(a.svc, lists)
		task := TaskChange{Tenant: "anon", Server: "s", ID: "t", Rev: 7, Session: "x", Method: "m", Params: []byte(`{"a":1}`)}
		a.TellTask(&task)
		long := task
		long.Params = []byte(`"` + strings.Repeat("x", mostParams) + `"`)
		a.TellTask(&long)
		a.TellLists(a.svc, make([]ListChange, 100*mostLists))
		a.box.Tell(letterLists, []byte(`{"Server":"unknown","Lists":[{"List":"tools"}]}`))
		for _, data := range []string{"", "[]", "null", "{}", `{"Lists":7}`, `{"Rev":"x"}`, `{"URI":1}`} {
			for _, kind := range []string{letterLists, letterTask, letterUpdated} {
				a.box.Tell(kind, []byte(data))
			}
		}
		time.Sleep(3 * time.Second)
		synctest.Wait()
		for _, m := range c.all[1:] {
			if diff := cmp.Diff(lists, m.news.lists[:2]); diff != "" || len(m.news.lists) != 2+mostLists {
				t.Errorf("%d lists (-want +got):\n%s", len(m.news.lists), diff)
			}
			if diff := cmp.Diff([]TaskChange{task, {Tenant: "anon", Server: "s", ID: "t", Rev: 7}}, m.news.tasks[:2]); diff != "" {
				t.Errorf("tasks (-want +got):\n%s", diff)
			}
			if m.panicked() || len(m.news.missed) != 0 {
				t.Errorf("panics %v, repeated %d times because of malformed letters", m.panicked(), len(m.news.missed))
			}
		}
		if n := len(a.news.lists) + len(a.news.tasks); n != 0 {
			t.Errorf("a node heard %d of its own news", n)
		}
	})
}

// TestNewsThatNobodyCouldTell has a node die that writes a session's standalone stream. Another one, which has the session, takes the stream over:
// what happened meanwhile nobody has told the client, so that it is told again.
func TestNewsThatNobodyCouldTell(t *testing.T) {
	inFleet(t, 2, nil, func(t *testing.T, all []*member) {
		a, b := all[0], all[1]
		session := b.begin("2025-11-25")
		first := a.get(session, "")
		synctest.Wait()
		b.post(session, ping)
		var gaps []bool
		b.handler.opened = func(_ *Peer, gap bool) { gaps = append(gaps, gap) }
		a.kill()
		first.Cut()
		b.get(session, first.lastID())
		time.Sleep(30 * time.Second)
		synctest.Wait()
		if !slices.Equal(gaps, []bool{true}) {
			t.Errorf("of the stream that was taken over it is told %v, want once that there is a gap", gaps)
		}
	})
}
