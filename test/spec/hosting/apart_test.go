package hosting_test

import (
	"encoding/json"
	"fmt"
	"regexp"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	theirs "github.com/troupe-run/troupe/host"
	"github.com/troupe-run/troupe/test/kit"
	"github.com/troupe-run/troupe/test/spec/host"
)

// gossip is a stranger whose every word names the principal that it knows, so that nothing of it can reach another unseen.
type gossip struct {
	test    *testing.T
	release chan struct{} // closed for the calls that wait and were not cancelled

	mu         sync.Mutex // guards the rest
	owners     map[*talk]string
	waiting    map[*talk]map[string]chan struct{} // calls, by the ids of the hop
	cancelled  map[string]int                     // by owner
	subscribed map[*talk]bool
}

// learn notes whose instance it is. Nobody else may ever call it.
func (g *gossip) learn(t *talk, who string) {
	g.mu.Lock()
	had := g.owners[t]
	g.owners[t] = who
	g.mu.Unlock()
	switch had {
	case who:
	case "":
		t.say(`{"jsonrpc":"2.0","method":"notifications/tools/list_changed"}`)
	default:
		g.test.Errorf("%s was let into the instance of %s", who, had)
	}
}

func (g *gossip) owner(t *talk) string {
	g.mu.Lock()
	defer g.mu.Unlock()
	return g.owners[t]
}

func (g *gossip) call(t *talk, m message) {
	if m.Method == "resources/read" {
		t.result(m, fmt.Sprintf(`{"contents":[{"uri":%q,"text":%q}]}`, m.Params.URI, g.owner(t)))
		return
	}
	var in struct{ Who, Do string }
	_ = json.Unmarshal(m.Params.Arguments, &in)
	g.learn(t, in.Who)
	if in.Do == "ask" {
		t.say(`{"jsonrpc":"2.0","method":"notifications/progress","params":{"progressToken":%s,"progress":1,"message":%q}}`, m.Params.Meta.Token, in.Who)
		t.say(`{"jsonrpc":"2.0","method":"notifications/message","params":{"level":"info","data":%q}}`, in.Who)
		t.text(m, t.elicits(in.Who))
		return
	}
	given := make(chan struct{})
	g.mu.Lock()
	if g.waiting[t] == nil {
		g.waiting[t] = make(map[string]chan struct{})
	}
	g.waiting[t][string(m.ID)] = given
	g.mu.Unlock()
	t.say(`{"jsonrpc":"2.0","method":"notifications/progress","params":{"progressToken":%s,"progress":2,"message":%q}}`, m.Params.Meta.Token, in.Who)
	select {
	case <-given:
	case <-t.ctx.Done():
	case <-g.release:
		t.text(m, in.Who)
	}
}

// wanted has what a stranger does not do with a message by itself.
func (g *gossip) wanted(t *talk, m message) bool {
	g.mu.Lock()
	defer g.mu.Unlock()
	who := g.owners[t]
	switch m.Method {
	case "resources/subscribe":
		g.subscribed[t] = true
	case "tools/list":
		if who == "" {
			return false
		}
		t.result(m, fmt.Sprintf(`{"tools":[{"name":"echo","inputSchema":{"type":"object"}},{"name":"of-%s","inputSchema":{"type":"object"}}]}`, who))
		return true
	case "notifications/cancelled":
		given := g.waiting[t][string(m.Params.RequestID)]
		if given == nil {
			g.test.Errorf("%s has no call %s that could be cancelled", who, m.Params.RequestID)
			return true
		}
		delete(g.waiting[t], string(m.Params.RequestID))
		close(given)
		g.cancelled[who]++
		return true
	}
	return false
}

// A neighbour is a principal with a session and a client of 2026-07-28.
type neighbour struct {
	test       *testing.T
	who        string
	c          *kit.Client
	m          *host.Stateless
	standalone *host.Listening
}

var someone = regexp.MustCompile(`user-\d+`)

// check fails for a message that names another principal.
func (n *neighbour) check(what, message string) {
	for _, named := range someone.FindAllString(message, -1) {
		if named != n.who {
			n.test.Errorf("%s got %s of %s: %s", n.who, what, named, message)
		}
	}
}

// arguments are those of a call.
func (n *neighbour) arguments(do string) string { return fmt.Sprintf(`{"who":%q,"do":%q}`, n.who, do) }

// answered is what a question is answered with, and so what comes of a call that has asked.
func (n *neighbour) answered() string {
	return fmt.Sprintf(`{"action":"accept","content":{"answer":%q}}`, n.who)
}

// begin begins a call that waits, and returns the rest of its stream once the backend has it.
func (n *neighbour) begin() *host.Listening {
	a := n.c.Post(host.CallWith("2", "echo", n.arguments("wait"), `"token"`))
	for e, ok := a.Next(); ok; e, ok = a.Next() {
		n.check("progress", e.Data)
		if strings.Contains(e.Data, `"progressToken":"token","progress":2`) {
			return host.Listen(a)
		}
	}
	n.test.Errorf("%s: a call that waits has ended", n.who)
	return host.Listen(a)
}

// ask makes a call of the session that asks, and returns all that came on its stream.
func (n *neighbour) ask() (got []string) {
	a := n.c.Post(host.CallWith("1", "echo", n.arguments("ask"), `"token"`))
	for e, ok := a.Next(); ok; e, ok = a.Next() {
		if e.Data == "" {
			continue
		}
		n.check("a message", e.Data)
		got = append(got, e.Data)
		if strings.Contains(e.Data, `"method":"elicitation/create"`) {
			host.Reply(n.c, host.ParseAsked(n.test, e.Data).ID, "result", n.answered())
		}
	}
	return got
}

// askAlone makes a call without a session that asks. thief has got hold of its state, and tries it first.
func (n *neighbour) askAlone(thief *neighbour) {
	a, id := n.m.Tool("echo", n.arguments("ask"))
	var r host.Required
	if err := json.Unmarshal([]byte(a.Body), &r); err != nil || len(r.Result.InputRequests) != 1 {
		n.test.Errorf("%s: request %s without a session was answered with %s", n.who, id, a.Body)
		return
	}
	n.check("a question", a.Body)
	for key := range r.Result.InputRequests {
		params := []string{host.Given(key, n.who), fmt.Sprintf(`"requestState":%q`, r.Result.RequestState)}
		other := &host.Stateless{T: n.test, Client: thief.m.Client, Capabilities: host.EveryCapability, N: 100}
		stolen, _ := other.Tool("echo", n.arguments("ask"), params...)
		host.Contains(n.test, "another's state", stolen.Body, `"code":-32602`)
		thief.check("what it has stolen", stolen.Body)
		done, id := n.m.Tool("echo", n.arguments("ask"), params...)
		host.Equal(n.test, n.who, n.m.Done(done, id), n.answered())
	}
}

// TestApart has 50 principals ask, cancel, log, subscribe, read and list at once, in both eras, with the same ids and tokens: nobody
// gets anything of another's.
func TestApart(t *testing.T) {
	kit.Bubble(t, func(t *testing.T) {
		g := &gossip{test: t, release: make(chan struct{}), owners: map[*talk]string{}, waiting: map[*talk]map[string]chan struct{}{}, cancelled: map[string]int{}, subscribed: map[*talk]bool{}}
		s := &stranger{lists: map[string]string{"resources": `{"uri":"x://mine","name":"mine"}`}, call: g.call, wanted: g.wanted}
		o := host.Unhurried
		o.Authenticate = host.User
		h := hosting(t, o, nil, backend{"one", s, theirs.Options{Prefix: theirs.NoPrefix}})
		all := make([]*neighbour, 50)
		for i := range all {
			who := fmt.Sprintf("user-%d", i)
			n := &neighbour{test: t, who: who, c: host.As(h.Unchecked(), who).Initialize(host.EveryCapability)}
			n.m = &host.Stateless{T: t, Client: host.As(h.Unchecked(), who), Capabilities: host.EveryCapability}
			n.standalone = host.Listen(n.c.Get(""))
			all[i] = n
		}
		var ready, done sync.WaitGroup
		ready.Add(len(all))
		asked, waits := make([][]string, len(all)), make([]*host.Listening, len(all))
		for i, n := range all {
			done.Go(func() {
				host.Contains(t, "a subscription", n.c.Post(host.Method("1", "resources/subscribe", `{"uri":"x://mine"}`)).Body, `"result":{}`)
				host.Contains(t, "a level", n.c.Post(host.Method("1", "logging/setLevel", `{"level":"info"}`)).Body, `"result":{}`)
				ready.Done()
				ready.Wait()
				waits[i] = n.begin()
				asked[i] = n.ask()
				n.askAlone(all[(i+1)%len(all)])
				host.Contains(t, "a resource", n.c.Post(host.Method("1", "resources/read", `{"uri":"x://mine"}`)).Body, fmt.Sprintf(`"text":%q`, n.who))
				if i%2 == 0 {
					n.c.Post(host.Cancel("2"))
				}
			})
		}
		done.Wait()
		close(g.release)
		time.Sleep(10 * time.Second)

		g.mu.Lock()
		for talk, who := range g.owners { // every other one hears of a change, and of something that happens outside of calls
			var i int
			if _, err := fmt.Sscanf(who, "user-%d", &i); err == nil && i%2 == 0 && g.subscribed[talk] {
				talk.say(`{"jsonrpc":"2.0","method":"notifications/resources/updated","params":{"uri":"x://mine"}}`)
				talk.say(`{"jsonrpc":"2.0","method":"notifications/message","params":{"level":"info","data":%q}}`, "outside "+who)
			}
		}
		cancelled := g.cancelled
		g.mu.Unlock()
		time.Sleep(10 * time.Second)
		for i, n := range all {
			names, _, _ := host.ToolsOf(t, n.c)
			if want := []string{"echo", "of-" + n.who}; !slices.Equal(names, want) {
				t.Errorf("%s has the tools %q, want %q", n.who, names, want)
			}
			list, _ := n.m.Do("tools/list", `{}`)
			n.check("a list", list.Body)
			events, _ := n.standalone.Now()
			for _, said := range events {
				n.check("a message", said)
			}
			even := (i + 1) % 2
			if rest, ended := waits[i].Now(); !ended || even == 0 && !slices.Equal(rest, []string{host.ToolText("2", n.who)}) || even == 1 && len(rest) > 0 {
				t.Errorf("%s: the call that waits went on with %q, ended %v", n.who, rest, ended)
			}
			said := strings.Join(append(asked[i], events...), "\n")
			for what, want := range map[string]int{
				fmt.Sprintf(`"progressToken":"token","progress":1,"message":%q`, n.who): 1,
				fmt.Sprintf(`"level":"info","data":%q`, n.who):                          1,
				`"method":"elicitation/create"`:                                         1,
				host.ToolText("1", n.answered()):                                        1,
				`"method":"notifications/tools/list_changed"`:                           1,
				host.UpdateNote("x://mine"):                                             even,
				fmt.Sprintf(`"data":%q`, "outside "+n.who):                              even,
			} {
				if got := strings.Count(said, what); got != want {
					t.Errorf("%s got %s %d times, want %d, in\n%s", n.who, what, got, want, said)
				}
			}
			if cancelled[n.who] != even {
				t.Errorf("the backend heard %d times that %s has cancelled, want %d", cancelled[n.who], n.who, even)
			}
			n.standalone.Close()
		}
	})
}
