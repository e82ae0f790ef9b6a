package cluster

import (
	"errors"
	"fmt"
	"log/slog"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/troupe-run/troupe/internal/program"
	"github.com/troupe-run/troupe/test/kit"
)

// under is one program, under one id.
func under(id, name, tools string) map[string]program.Program {
	return map[string]program.Program{id: {Name: name, Tools: tools}}
}

// TestAnotherProgram: under an id of a server one program is served, and the node that comes later with another one is refused. The same with other tools is
// logged after a minute, as a new release may have them.
func TestAnotherProgram(t *testing.T) {
	kit.BubbleNATS(t, nil, func(t *testing.T, v *kit.VirtualNATS) {
		logs := make(map[string]*syncBuffer)
		begin := func(name string) *Node {
			logs[name] = new(syncBuffer)
			n := open(t, Options{Node: name, Remote: Remote{URL: v.Line(name).URL()}, Log: slog.New(slog.NewTextHandler(logs[name], nil))})
			(&mailbox{Node: n}).listen()
			return n
		}
		serves := func(n *Node, all map[string]program.Program) error {
			n.Serves(all)
			return n.Admits(t.Context())
		}
		a, b, c := begin("a"), begin("b"), begin("c")
		for _, n := range []*Node{a, b} {
			if err := serves(n, under("main", "billing", "1")); err != nil {
				t.Errorf("the same program: %v", err)
			}
		}
		err := serves(c, under("main", "search", "1"))
		if !errors.Is(err, ErrRemote) || !strings.Contains(err.Error(), `node a, which is there, is another program: server "main" is "billing" there and "search" here`) {
			t.Errorf("another program: %v", err)
		}
		if err := serves(c, under("other", "search", "1")); err != nil {
			t.Errorf("under another id: %v", err)
		}
		if err := serves(a, under("main", "billing", "2")); err != nil {
			t.Errorf("other tools: %v", err)
		}
		c.Serves(nil)
		logged := func(n, what string) int { synctest.Wait(); return strings.Count(logs[n].String(), what) }
		const tools = "has other tools"
		time.Sleep(strangerAfter / 2)
		if logged("a", tools)+logged("b", tools) != 0 {
			t.Error("other tools are logged at once")
		}
		time.Sleep(strangerAfter)
		if logged("a", tools+", as while a new release takes the place of an old one\" node=b servers=[main]") != 1 || logged("b", tools) != 1 {
			t.Errorf("other tools are logged %d and %d times", logged("a", tools), logged("b", tools))
		}

		// Who did not ask finds out, and says that it must not serve, to whoever asks meanwhile.
		asking := time.NewTicker(100 * time.Millisecond)
		defer asking.Stop()
		asked, stop := make(chan struct{}), make(chan struct{})
		go func() {
			defer close(asked)
			for {
				select {
				case <-asking.C:
					_ = c.Clash()
				case <-stop:
					return
				}
			}
		}()
		defer func() { close(stop); <-asked }()
		c.Serves(under("main", "search", "1"))
		time.Sleep(5 * time.Second)
		synctest.Wait()
		if c.Clash() == nil || !strings.Contains(c.Clash().Error(), `"billing" there`) || logged("c", "must not serve") != 2 { // than a, and than b
			t.Errorf("the later one says %v", c.Clash())
		}
		if a.Clash() != nil || logged("a", "must not serve") != 0 {
			t.Errorf("the earlier one says %v", a.Clash())
		}
		c.Serves(under("main", "billing", "1"))
		time.Sleep(5 * time.Second)
		if err := c.Clash(); err != nil {
			t.Errorf("once it is the same: %v", err)
		}
		for _, n := range []*Node{a, b, c} {
			change(t, n.Close(t.Context()))
		}
		if err := serves(begin("d"), under("main", "search", "1")); err != nil {
			t.Errorf("when the others have ended: %v", err)
		}
	})
}

// TestProgramsThatStartTogether: of two programs that come at the same moment under one id, one stays.
func TestProgramsThatStartTogether(t *testing.T) {
	kit.BubbleNATS(t, nil, func(t *testing.T, v *kit.VirtualNATS) {
		for round := range 20 {
			var nodes []*Node
			for i := range 4 {
				nodes = append(nodes, must[*Node](t)(Open(t.Context(), Options{Node: fmt.Sprint("n", i), Remote: Remote{URL: v.Line(fmt.Sprint("n", i)).URL()}})))
			}
			var all sync.WaitGroup
			var mu sync.Mutex // guards stay
			stay := make(map[string]int)
			for i, n := range nodes {
				all.Go(func() {
					time.Sleep(time.Duration(i*round) * time.Millisecond)
					n.Serves(under("main", []string{"x", "y"}[i%2], ""))
					if n.Admits(t.Context()) == nil {
						mu.Lock()
						stay[[]string{"x", "y"}[i%2]]++
						mu.Unlock()
					}
				})
			}
			all.Wait()
			if len(stay) != 1 {
				t.Errorf("round %d: %v stay", round, stay)
			}
			for _, n := range nodes {
				change(t, n.Close(t.Context()))
			}
		}
	})
}

// TestEntriesThatSayNoProgram: a node of a release that does not say what it is counts as the same, and what an entry has in another form is passed over.
func TestEntriesThatSayNoProgram(t *testing.T) {
	mine := program.Claims{"main": {Name: "x", Since: 9}}
	for text, want := range map[string]bool{
		`{"boot":"b","servers":["main"]}`:                                    false,
		`{"boot":"b","programs":{"main":{"name":"x","since":3}}}`:            false,
		`{"boot":"b","programs":{"main":{"name":"y","since":3}}}`:            true,
		`{"boot":"b","programs":{"main":{"name":"y"}}}`:                      true, // of revision 5
		`{"boot":"b","programs":{"main":{"name":"y","since":10}}}`:           false,
		`{"boot":"b","programs":{"main":null,"other":{"name":"y","new":1}}}`: false,
	} {
		e, ok := readEntry([]byte(text), 5)
		if got := mine.Earlier(e.Programs) != ""; !ok || got != want {
			t.Errorf("%s: readable %t, another program %t, want %t", text, ok, got, want)
		}
	}
	for _, text := range []string{"", "{", `{"programs":[]}`, `{"programs":{"main":1}}`} {
		if _, ok := readEntry([]byte(text), 5); ok {
			t.Errorf("%s is read", text)
		}
	}
}
