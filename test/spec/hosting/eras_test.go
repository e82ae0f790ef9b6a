package hosting_test

import (
	"fmt"
	"slices"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	theirs "github.com/troupe-run/troupe/host"
	"github.com/troupe-run/troupe/test/kit"
	"github.com/troupe-run/troupe/test/spec/host"
)

const (
	toolsChanged = `{"jsonrpc":"2.0","method":"notifications/tools/list_changed"`
	other        = `{"name":"other","inputSchema":{"type":"object"}}`
)

// user returns a client of 2026-07-28 of a user, "" for one that nobody knows.
func user(h *host.Host, name string) *host.Stateless {
	m := h.Stateless(`{}`)
	if name != "" {
		host.As(m.Client, name)
	}
	return m
}

// listens begins a listener, which is acknowledged.
func listens(t *testing.T, m *host.Stateless, filter string) *host.Listening {
	t.Helper()
	a, _ := m.Do("subscriptions/listen", `{"notifications":`+filter+`}`)
	l := reads(t, a)
	time.Sleep(time.Second)
	synctest.Wait()
	if got, _ := l.Now(); len(got) != 1 || !strings.Contains(got[0], "acknowledged") {
		t.Fatalf("the listener got %q", got)
	}
	return l
}

// reads reads a stream until the test is over.
func reads(t *testing.T, a *kit.Answer) *host.Listening {
	t.Cleanup(a.Close)
	return host.Listen(a)
}

// counted is how many of the messages contain a text.
func counted(all []string, text string) (n int) {
	for _, m := range all {
		if strings.Contains(m, text) {
			n++
		}
	}
	return n
}

// eras calls f for backends of both eras.
func eras(t *testing.T, f func(t *testing.T, modern bool)) {
	t.Helper()
	for _, modern := range []bool{false, true} {
		t.Run(fmt.Sprintf("newer=%v", modern), func(t *testing.T) {
			kit.Bubble(t, func(t *testing.T) { f(t, modern) })
		})
	}
}

// users is a server with one backend, for users of a header.
func users(t *testing.T, s *stranger, by theirs.Isolation) *host.Host {
	t.Helper()
	o := host.Unhurried
	o.Authenticate = host.User
	return hosting(t, o, nil, backend{"one", s, theirs.Options{Prefix: theirs.NoPrefix, Isolation: by}})
}

// resources are two that a stranger lists.
var resources = map[string]string{"resources": `{"uri":"x://1","name":"one"},{"uri":"x://2","name":"two"}`}

// TestListsChangeInEachEra tells sessions and listeners when a list of their own instance changes, whichever era that is of: also if it
// is soon as it was again.
func TestListsChangeInEachEra(t *testing.T) {
	eras(t, func(t *testing.T, modern bool) {
		s := &stranger{modern: modern, call: func(t *talk, m message) {
			if m.Params.Name == "echo" {
				t.lists(other)
				time.Sleep(300 * time.Millisecond)
				t.lists(`{"name":"echo","inputSchema":{"type":"object"}}`)
			}
			t.text(m, "done")
		}}
		h := users(t, s, theirs.BySession)
		ann, bob := user(h, "ann"), user(h, "bob")
		bob.Done(bob.Tool("none", `{}`)) // which has an instance of its own
		mine, others := listens(t, ann, `{"toolsListChanged":true}`), listens(t, bob, `{"toolsListChanged":true}`)
		for range 3 { // sooner than once a second
			a, id := ann.Tool("echo", `{}`)
			ann.Done(a, id)
			time.Sleep(100 * time.Millisecond)
		}
		time.Sleep(10 * time.Second)
		if n, m := counted(mine.Since(1), toolsChanged), counted(others.Since(1), toolsChanged); n != 6 || m != 0 {
			t.Errorf("the one whose list has changed six times was told %d times, and the other one %d times", n, m)
		}
		nobody := user(h, "") // on the loopback interface, where all are one
		unnamed := listens(t, nobody, `{"toolsListChanged":true}`)
		a, id := nobody.Tool("echo", `{}`)
		nobody.Done(a, id)
		time.Sleep(10 * time.Second)
		if n := counted(unnamed.Since(1), toolsChanged); n != 2 {
			t.Errorf("one without a name was told %d times", n)
		}
		c := host.As(h.Unchecked(), "ann").Initialize(`{}`)
		stream := reads(t, c.Get(""))
		c.Post(host.Call("1", "echo", `{}`)).Close()
		time.Sleep(10 * time.Second)
		if got, _ := stream.Now(); counted(got, toolsChanged) != 2 {
			t.Errorf("the session got %q", got)
		}
	})
}

// TestListenersFollowResources has listeners of two users hear of the resources that they follow, each from the own instance, whose backend is
// asked once, and no longer once the last of them has gone.
func TestListenersFollowResources(t *testing.T) {
	eras(t, func(t *testing.T, modern bool) {
		s := &stranger{modern: modern, lists: resources, call: func(t *talk, m message) { t.text(m, "done") }}
		h := users(t, s, theirs.BySession)
		ann, bob := user(h, "ann"), user(h, "bob")
		asks := func(what string, older, newer string) {
			t.Helper()
			want := older
			if modern {
				want = newer
			}
			host.Equal(t, what, s.notes(), want)
		}
		ann.Done(ann.Tool("echo", `{}`))
		first := s.last()
		asks("nobody follows anything", "", `listen {"toolsListChanged":true}`)
		both := listens(t, ann, `{"resourceSubscriptions":["x://1","x://2"]}`)
		if got := s.notes(); counted(strings.Split(got, ", "), "x://1") == 0 || !strings.Contains(got, "x://2") {
			t.Errorf("the backend was asked %s", got)
		}
		one := listens(t, ann, `{"resourceSubscriptions":["x://1"]}`)
		asks("another one of the same user", "", "")
		bob.Done(bob.Tool("echo", `{}`))
		asks("another user follows nothing", "", `listen {"toolsListChanged":true}`)
		theirs := listens(t, bob, `{"resourceSubscriptions":["x://1"]}`)
		asks("one of another user", "subscribe x://1", `listen {"toolsListChanged":true,"resourceSubscriptions":["x://1"]}, end {"toolsListChanged":true}`)
		if s.last() == first {
			t.Fatal("two users share an instance")
		}
		first.changes("x://1")
		first.changes("x://2")
		time.Sleep(time.Second)
		for _, l := range []struct {
			*host.Listening
			who        string
			one, other int
		}{{both, "both", 1, 1}, {one, "one", 1, 0}, {theirs, "another user's", 0, 0}} {
			got := l.Since(1)
			if n, m := counted(got, `"uri":"x://1"`), counted(got, `"uri":"x://2"`); n != l.one || m != l.other || n+m != len(got) {
				t.Errorf("%s got %q", l.who, got)
			}
		}
		both.Close()
		time.Sleep(time.Second)
		asks("one of two has gone", "unsubscribe x://2", `listen {"toolsListChanged":true,"resourceSubscriptions":["x://1"]}, end {"toolsListChanged":true,"resourceSubscriptions":["x://1","x://2"]}`)
		one.Close()
		time.Sleep(time.Second)
		asks("the last one has gone", "unsubscribe x://1", `listen {"toolsListChanged":true}, end {"toolsListChanged":true,"resourceSubscriptions":["x://1"]}`)
	})
}

// TestSessionsThatShareFollowResources has sessions and a listener share an instance: who leaves takes nothing from the others.
func TestSessionsThatShareFollowResources(t *testing.T) {
	for _, by := range []theirs.Isolation{theirs.ByPrincipal, theirs.Shared} {
		eras(t, func(t *testing.T, modern bool) {
			s := &stranger{modern: modern, lists: resources, call: func(t *talk, m message) { t.text(m, "done") }}
			h := users(t, s, by)
			begin := func() (*kit.Client, *host.Listening) {
				c := host.As(h.Unchecked(), "ann").Initialize(`{}`)
				l := reads(t, c.Get(""))
				host.Contains(t, "subscribe", c.Post(host.Method("1", "resources/subscribe", `{"uri":"x://1"}`)).Body, `"result":{}`)
				return c, l
			}
			leaver, left := begin()
			ender, ended := begin()
			_, stays := begin()
			listener := listens(t, user(h, "ann"), `{"resourceSubscriptions":["x://1"]}`)
			if got := s.notes(); strings.Count(got, "x://1") != 1 {
				t.Errorf("the backend was asked %s", got)
			}
			told := func(what string, want ...int) {
				t.Helper()
				before := []int{}
				for _, l := range []*host.Listening{left, ended, stays, listener} {
					got, _ := l.Now()
					before = append(before, len(got))
				}
				s.last().changes("x://1")
				time.Sleep(2 * time.Second)
				var got []int
				for i, l := range []*host.Listening{left, ended, stays, listener} {
					got = append(got, counted(l.Since(before[i]), `"uri":"x://1"`))
				}
				if !slices.Equal(got, want) {
					t.Errorf("%v, %s: told %v, want %v", by, what, got, want)
				}
			}
			told("all follow it", 1, 1, 1, 1)
			host.Contains(t, "unsubscribe", leaver.Post(host.Method("2", "resources/unsubscribe", `{"uri":"x://1"}`)).Body, `"result":{}`)
			told("one has left", 0, 1, 1, 1)
			ender.Do("DELETE", "")
			time.Sleep(time.Second)
			told("another one has ended", 0, 0, 1, 1)
			listener.Close()
			time.Sleep(time.Second)
			told("the listener has gone", 0, 0, 1, 0)
			host.Equal(t, "what the backend was asked meanwhile", s.notes(), "")
		})
	}
}

// TestUnsubscribed has an instance that one session has say no more about what it does not follow.
func TestUnsubscribed(t *testing.T) {
	eras(t, func(t *testing.T, modern bool) {
		s := &stranger{modern: modern, lists: resources}
		c := alone(t, s).Session()
		c.Post(host.Method("1", "resources/subscribe", `{"uri":"x://1"}`))
		c.Post(host.Method("2", "resources/subscribe", `{"uri":"x://2"}`))
		time.Sleep(time.Second)
		s.notes()
		host.Contains(t, "unsubscribe", c.Post(host.Method("3", "resources/unsubscribe", `{"uri":"x://1"}`)).Body, `"result":{}`)
		time.Sleep(time.Second)
		want := "unsubscribe x://1"
		if modern {
			want = `listen {"toolsListChanged":true,"resourceSubscriptions":["x://2"]}, end {"toolsListChanged":true,"resourceSubscriptions":["x://1","x://2"]}`
		}
		host.Equal(t, "the backend was asked", s.notes(), want)
	})
}

// TestRefusedSubscription tells a client that its backend refuses a subscription, and leaves the others as they are.
func TestRefusedSubscription(t *testing.T) {
	eras(t, func(t *testing.T, modern bool) {
		s := &stranger{modern: modern, lists: resources}
		s.wanted = func(t *talk, m message) bool {
			refuses := m.Params.URI == "x://2" && m.Method == "resources/subscribe" || strings.Contains(string(m.Params.News), "x://2")
			if refuses {
				t.say(`{"jsonrpc":"2.0","id":%s,"error":{"code":-32602,"message":"not this one"}}`, m.ID)
			}
			return refuses
		}
		h := users(t, s, theirs.ByPrincipal)
		c := host.As(h.Unchecked(), "ann").Initialize(`{}`)
		stream := reads(t, c.Get(""))
		c.Post(host.Method("1", "resources/subscribe", `{"uri":"x://1"}`))
		host.Contains(t, "a session", c.Post(host.Method("2", "resources/subscribe", `{"uri":"x://2"}`)).Body, "not this one")
		a, _ := user(h, "ann").Do("subscriptions/listen", `{"notifications":{"resourceSubscriptions":["x://1","x://2"]}}`)
		l := reads(t, a)
		time.Sleep(time.Second)
		got, _ := l.Now()
		host.Contains(t, "a listener", strings.Join(got, "\n"), `"notifications":{"resourceSubscriptions":["x://1"]}`)
		s.last().changes("x://1")
		time.Sleep(time.Minute)
		got, _ = stream.Now()
		if n, m := counted(got, `"uri":"x://1"`), counted(l.Since(1), `"uri":"x://1"`); n != 1 || m != 1 {
			t.Errorf("the session was told %d times, and the listener %d times", n, m)
		}
	})
}

// TestListenedAgain asks a backend of the newer era for news again that has ended its telling, and has everything looked at that may have
// changed meanwhile.
func TestListenedAgain(t *testing.T) {
	kit.Bubble(t, func(t *testing.T) {
		s := &stranger{modern: true, lists: resources, call: func(t *talk, m message) { t.text(m, "done") }}
		c := alone(t, s).Session()
		stream := reads(t, c.Get(""))
		c.Post(host.Method("1", "resources/subscribe", `{"uri":"x://1"}`))
		time.Sleep(10 * time.Minute)
		s.notes()
		in := s.last()
		in.mu.Lock()
		for id := range in.ears {
			_, _ = fmt.Fprintf(in.out, `{"jsonrpc":"2.0","id":%s,"result":{"resultType":"complete"}}`+"\n", id)
		}
		clear(in.ears)
		in.mu.Unlock()
		list := other
		s.tools.Store(&list)
		time.Sleep(10 * time.Second)
		host.Equal(t, "the backend was asked", s.notes(), `listen {"toolsListChanged":true,"resourceSubscriptions":["x://1"]}`)
		got, _ := stream.Now()
		if counted(got, toolsChanged) != 1 || counted(got, `"uri":"x://1"`) != 1 {
			t.Errorf("the client got %q", got)
		}
		in.end()
		time.Sleep(time.Second)
		host.Contains(t, "a call", c.Post(host.Call("2", "echo", `{}`)).Body, "done")
		host.Equal(t, "the next instance was asked", s.notes(), `listen {"toolsListChanged":true,"resourceSubscriptions":["x://1"]}`)
	})
}

// TestLevelOfACall has a backend log what the client of each call wants: told before the call in the older era, and with it in the newer one.
func TestLevelOfACall(t *testing.T) {
	eras(t, func(t *testing.T, modern bool) {
		s := &stranger{modern: modern}
		s.call = func(t *talk, m message) {
			s.note("call %s", m.Params.Meta.Level)
			t.text(m, "done")
		}
		h := users(t, s, theirs.BySession)
		asks := func(what string, older, newer string) {
			t.Helper()
			got := strings.ReplaceAll(s.notes(), `, listen {"toolsListChanged":true}`, "")
			got = strings.ReplaceAll(got, `listen {"toolsListChanged":true}, `, "")
			want := older
			if modern {
				want = newer
			}
			host.Equal(t, what, got, want)
		}
		ann := user(h, "ann")
		of := func(level string) {
			meta := ""
			if level != "" {
				meta = fmt.Sprintf(`"io.modelcontextprotocol/logLevel":%q`, level)
			}
			ann.Send("tools/call", `{"name":"echo","arguments":{}}`, meta)
		}
		of("")
		asks("a request without a level", "call ", "call ")
		of("debug")
		of("debug")
		of("error")
		asks("requests with levels", "level debug, call , call , level error, call ", "call debug, call debug, call error")
		c := host.As(h.Unchecked(), "ann").Initialize(`{}`)
		c.Post(host.Call("1", "echo", `{}`))
		asks("a session without a level", "call ", "call info")
		c.Post(host.Method("2", "logging/setLevel", `{"level":"warning"}`))
		asks("a session with an instance", "level warning", "")
		c.Post(host.Call("3", "echo", `{}`))
		asks("its next call", "call ", "call warning")
	})
}
