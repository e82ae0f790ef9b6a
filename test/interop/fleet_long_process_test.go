//go:build full

package interop

import (
	"bytes"
	"cmp"
	"fmt"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"
)

// The long call counts for a minute. The harm comes when it has counted to a third.
const (
	counts = 60
	third  = counts / 3
)

// harm is what happens to a fleet while clients call it.
type harm struct {
	flags [3][]string // of the nodes
	do    func(t *testing.T, f *fleet, all []*caller)
	// The nodes that get the calls of sessions, from 2025-11-25 on and before; the first gets those without a session.
	newer, older int
	resumed      int // how often at least the former are resumed
	// What must become of a call: of a session, and without one and the extension, with it, and with it on the second node. The latter is
	// nil if the harm has none.
	session, plain, task, again func(c *caller) error
}

// On a node of the former kind a call is a task before the harm comes, where its client declares the extension, and on one of the latter it is none.
var (
	early = []string{"--set", "stateless-grace=5s"}
	late  = []string{"--set", "stateless-grace=10m"}
)

var harms = map[string]harm{
	"kill -9": {
		flags: [3][]string{early, late, late},
		do: func(t *testing.T, f *fleet, all []*caller) {
			for i := range 2 {
				f.nodes[i].kill()
			}
			for i := range 2 {
				f.again(t, i)
			}
		},
		resumed: 1, session: once, plain: twice, task: asTask, again: twice,
	},
	"SIGTERM": { // the first node has the time to wait for all of its calls, the second has not
		flags: [3][]string{append(late, "--drain-wait", "9m"), append(late, "--drain-wait", "8s"), late},
		do: func(t *testing.T, f *fleet, all []*caller) {
			f.front.aimAt(2)
			for i := 1; i >= 0; i-- {
				if err := f.nodes[i].stopWithin(lasting); err != nil {
					t.Error(err)
				}
				f.again(t, i)
			}
		},
		newer: 1, older: 1, session: once, plain: once, task: asTask,
	},
	"rolling restart": {
		flags: [3][]string{append(late, "--drain-wait", "8s"), append(late, "--drain-wait", "8s"), append(late, "--drain-wait", "8s")},
		do: func(t *testing.T, f *fleet, all []*caller) {
			for i := range f.nodes {
				if i > 0 {
					awaitResumed(t, f, all, i)
				}
				if err := f.nodes[i].stopWithin(lasting); err != nil {
					t.Error(err)
				}
				f.front.aimAt(i + 1)
				f.again(t, i)
				if i == len(f.nodes)-1 {
					f.front.aimAt(-1)
				}
			}
		},
		older:   2, // the last that is restarted: see README.md
		resumed: 2, session: once, plain: untilItEnds, task: asTask,
	},
}

// TestLongCallsOfSDKs has clients of all SDKs, in each revision that they speak over streamable HTTP, call a safe tool that takes a minute, through
// a front that gives each request to another of three nodes. In the middle the node that runs the calls is killed, or ended in order, or all nodes are
// restarted in turn.
func TestLongCallsOfSDKs(t *testing.T) {
	t.Parallel()
	programs := sdks(t)
	var all sync.WaitGroup // it is one of the parallel tests, because it waits most of the time
	for name, h := range harms {
		all.Go(func() { t.Run(name, func(t *testing.T) { outliveHarm(t, h, programs) }) })
	}
	all.Wait()
}

// sdk is a release of an SDK.
type sdk struct {
	name      string
	revisions []string
	run       func(t *testing.T, all []*caller) // makes the calls, and returns when they are over
}

// sdks are the releases that can be driven here.
func sdks(t *testing.T) []sdk {
	sessions := []string{"2025-03-26", "2025-06-18", revision}
	both := append(slices.Clone(sessions), stateless)
	all := []sdk{{"go", both, callGo}}
	t.Run("npm", func(t *testing.T) {
		modules := nodeModules(t)
		for _, release := range outliving {
			speaks := sessions
			if !strings.HasPrefix(release, "1.") {
				speaks = both
			}
			all = append(all, sdk{"typescript-" + release, speaks, func(t *testing.T, all []*caller) {
				callProgram(t, all, map[string]any{"modules": modules, "sdk": release}, "node", filepath.Join("npm", "long.mjs"))
			}})
		}
	})
	t.Run("python", func(t *testing.T) {
		for _, release := range pythonReleases(t, "calls of the Python SDK outlive their nodes") {
			speaks := sessions
			if release.stateless {
				speaks = both
			}
			all = append(all, sdk{"python-" + filepath.Base(release.dir), speaks, func(t *testing.T, all []*caller) {
				callProgram(t, all, map[string]any{}, release.python, filepath.Join("python", "long.py"))
			}})
		}
	})
	return all
}

// caller is one client, which makes one call.
type caller struct {
	Name     string `json:"name"`
	URL      string `json:"http"`
	Revision string `json:"revision"`
	Tasks    bool   `json:"tasks"` // it declares the extension
	To       int    `json:"to"`

	want    func(c *caller) error
	resumed int // how often at least the call's stream is resumed

	mu       sync.Mutex // guards the rest
	attempts []attempt
	after    string // what a short call was answered with, after the long one
	faults   []string
	longs    []long // from the front, once all is over
}

// attempt is what came of the call, sent once.
type attempt struct {
	progress          []int
	task, text, error string
}

// said is a line of a client program.
type said struct {
	Name                     string
	Attempt, Progress        int
	Task, Text, Error, After string
	Fault                    string // what the client reports beside its calls
	Done                     bool
}

// hear takes down what a client says.
func (c *caller) hear(s said) {
	c.mu.Lock()
	defer c.mu.Unlock()
	for len(c.attempts) < s.Attempt {
		c.attempts = append(c.attempts, attempt{})
	}
	if s.Fault != "" {
		c.faults = append(c.faults, s.Fault)
	}
	if s.After != "" {
		c.after = s.After
	}
	if s.Attempt == 0 {
		return
	}
	a := &c.attempts[s.Attempt-1]
	if s.Progress != 0 {
		a.progress = append(a.progress, s.Progress)
	}
	a.task, a.text, a.error = cmp.Or(s.Task, a.task), cmp.Or(s.Text, a.text), cmp.Or(s.Error, a.error)
}

// midway reports whether the call runs, and over whether it has ended.
func (c *caller) midway() (midway, over bool) {
	c.mu.Lock()
	defer c.mu.Unlock()
	if len(c.attempts) == 0 {
		return false, len(c.faults) > 0
	}
	a := c.attempts[0]
	over = a.text != "" || a.error != ""
	return over || a.task != "" || slices.Contains(a.progress, third), over
}

// outliveHarm starts a fleet, has all clients call it, harms it and sees what has become of the calls.
func outliveHarm(t *testing.T, h harm, programs []sdk) {
	f := startFleet(t, slices.Clone(h.flags[:])...)
	var all []*caller
	var running sync.WaitGroup
	defer running.Wait()
	for _, p := range programs {
		var mine []*caller
		add := func(revision, how string, node int, want func(c *caller) error) *caller {
			name := strings.Join([]string{p.name, revision, how}, "_")
			c := &caller{Name: name, URL: f.front.endpoint(name, node), Revision: revision, Tasks: strings.HasPrefix(how, "with_tasks"), To: counts, want: want}
			mine = append(mine, c)
			return c
		}
		for _, revision := range p.revisions {
			switch {
			case revision < "2025-11-25":
				add(revision, "session", h.older, h.session)
			case revision < stateless:
				add(revision, "session", h.newer, h.session).resumed = h.resumed
			default:
				add(revision, "without_tasks", 0, h.plain)
				add(revision, "with_tasks", 0, h.task)
				if h.again != nil {
					add(revision, "with_tasks_but_none_yet", 1, h.again)
				}
			}
		}
		all = append(all, mine...)
		running.Go(func() { p.run(t, mine) })
	}
	for _, c := range all {
		for end := time.Now().Add(lasting); ; time.Sleep(50 * time.Millisecond) {
			midway, over := c.midway()
			if over {
				t.Errorf("%s is over before the harm", c.Name)
			}
			if midway || over {
				break
			}
			if time.Now().After(end) {
				t.Errorf("%s does not begin", c.Name)
				break
			}
		}
	}
	f.front.free()
	began := time.Now()
	h.do(t, f, all)
	t.Logf("the nodes were harmed for %.1f s", time.Since(began).Seconds())
	running.Wait()
	for _, c := range all {
		t.Run(c.Name, func(t *testing.T) {
			c.longs = f.front.longs(c.Name)
			t.Logf("%v", c)
			if err := c.want(c); err != nil {
				t.Errorf("%v\n%s%s", err, c, f.front.transcript(c.Name))
			}
			if c.after != "still here" {
				t.Errorf("a call after it comes to %q", c.after)
			}
			if len(c.faults) > 0 {
				t.Errorf("the client reports %q", c.faults)
			}
		})
	}
}

// awaitResumed waits until the calls of sessions that can be handed over have been resumed n times, so that each restart hits them. They are silent
// then: what their clients have seen does not come again.
func awaitResumed(t *testing.T, f *fleet, all []*caller, n int) {
	t.Helper()
	end := time.Now().Add(lasting)
	for _, c := range all {
		for ; c.Revision == revision; time.Sleep(50 * time.Millisecond) {
			longs := f.front.longs(c.Name)
			if _, over := c.midway(); over || len(longs) > 0 && longs[0].resumed >= n {
				break
			}
			if time.Now().After(end) {
				t.Errorf("%s does not come back", c.Name)
				break
			}
		}
	}
}

func (c *caller) String() string {
	var b strings.Builder
	for i, a := range c.attempts {
		fmt.Fprintf(&b, "%d: progress %v, task %q, text %q, error %q\n", i+1, a.progress, a.task, a.text, a.error)
	}
	for _, l := range c.longs {
		fmt.Fprintf(&b, "%s%d responses, and resumed %d times\n", l.node, len(l.answers), l.resumed)
		for _, m := range l.answers {
			fmt.Fprintf(&b, "  %s%s\n", m.Result, m.Error)
		}
	}
	return b.String()
}

// finished checks that the last attempt has the result, and that each attempt was one request, which had so many responses.
func (c *caller) finished(responses ...int) error {
	var got []int
	for _, l := range c.longs {
		got = append(got, len(l.answers))
	}
	if n := len(c.attempts); n != len(responses) || c.attempts[n-1].text != fmt.Sprint("counted to ", counts) || c.attempts[n-1].error != "" {
		return fmt.Errorf("after %d attempts there is no result, want %d", n, len(responses))
	}
	if !slices.Equal(got, responses) {
		return fmt.Errorf("the requests had %v responses, want %v", got, responses)
	}
	return nil
}

// counted checks that an attempt had each number once.
func (a attempt) counted() error {
	for i, n := range a.progress {
		if n != i+1 {
			return fmt.Errorf("progress came as %v, want each number to %d", a.progress, counts)
		}
	}
	if len(a.progress) != counts {
		return fmt.Errorf("%d numbers came as progress, want %d", len(a.progress), counts)
	}
	return nil
}

// once: one request, one response, and each number once.
func once(c *caller) error {
	if err := c.finished(1); err != nil {
		return err
	}
	if n := c.longs[0].resumed; n < c.resumed {
		return fmt.Errorf("its stream was resumed %d times, want %d: it was not harmed", n, c.resumed)
	}
	return c.attempts[0].counted()
}

// twice: the connection breaks without a response, and the call is sent again.
func twice(c *caller) error {
	if err := c.finished(0, 1); err != nil {
		return err
	}
	if c.attempts[0].task != "" || c.attempts[0].error == "" {
		return fmt.Errorf("the first attempt does not end with an error")
	}
	if c.Tasks {
		return nil // it may have become a task, which tells no more progress
	}
	return c.attempts[1].counted()
}

// untilItEnds: the call is told to be sent again as often as its node ends.
func untilItEnds(c *caller) error {
	responses := []int{1}
	for len(responses) < len(c.attempts) {
		responses = append(responses, 1)
	}
	if err := c.finished(responses...); err != nil {
		return err
	}
	if len(responses) < 2 {
		return fmt.Errorf("the call was not told to be sent again")
	}
	for _, l := range c.longs[:len(c.longs)-1] {
		if !bytes.Contains(l.answers[0].Error, []byte(`"retryAfterMs"`)) {
			return fmt.Errorf("it is not told to send the call again, but %s%s", l.answers[0].Error, l.answers[0].Result)
		}
	}
	return c.attempts[len(c.attempts)-1].counted()
}

// asTask: the response is a task, which goes on.
func asTask(c *caller) error {
	if err := c.finished(1); err != nil {
		return err
	}
	if c.attempts[0].task == "" {
		return fmt.Errorf("the call has not become a task")
	}
	return nil
}
