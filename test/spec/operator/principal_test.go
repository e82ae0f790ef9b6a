package operator_test

import (
	"io"
	"strings"
	"testing"
	"testing/synctest"

	"github.com/troupe-run/troupe"
	"github.com/troupe-run/troupe/operator"
	"github.com/troupe-run/troupe/test/kit"
	"github.com/troupe-run/troupe/test/spec/host"
)

// TestEndPrincipal ends all that ann has, on two nodes, by way of one of them: calls of both eras, each of which has one response that says so,
// sessions, listeners and tasks. What bob has goes on, and ann may come again.
func TestEndPrincipal(t *testing.T) {
	var all []*runaways
	o := troupe.Options{DrainDelay: -1, Authenticate: host.User}
	host.Fleet(t, 2, o, func(h *host.Host) {
		all = append(all, addRunaways(h.Server, troupe.Tool{Task: troupe.TaskOptional}))
	}, func(t *testing.T, hosts []*host.Host) {
		type has struct {
			session          *kit.Client
			stream           *kit.Answer
			plain, stateless <-chan *kit.Answer
			id               string
			task             *kit.Answer
			listens          *host.Listening
		}
		begin := func(name string, h *host.Host) (x has) {
			x.session = host.As(h.Client(), name).Initialize(`{}`)
			x.stream = x.session.Post(host.Call("1", "talks", `{}`))
			x.plain = x.session.PostLater(host.Call("2", "silent", `{}`))
			x.task = x.session.Post(host.Method("3", "tools/call", `{"name":"silent","arguments":{},"task":{"ttl":600000}}`))
			m := h.Stateless(`{}`)
			host.As(m.Client, name)
			x.stateless, x.id = m.Later("tools/call", host.ToolParams("silent", `{}`))
			listens, _ := m.Listen("9", `{"toolsListChanged":true}`)
			x.listens = host.Listen(listens)
			synctest.Wait()
			return x
		}
		theirs := map[string][]has{}
		for _, name := range []string{"ann", "bob"} {
			for _, h := range hosts {
				theirs[name] = append(theirs[name], begin(name, h))
			}
		}
		o := hosts[0].Runtime.Operator()
		count := func(h *host.Host, principal string) (calls, sessions, tasks int) {
			t.Helper()
			o, q := h.Runtime.Operator(), operator.Query{Principal: principal, Server: "/mcp"}
			c, err1 := o.Calls(t.Context(), q)
			s, err2 := o.Sessions(t.Context(), q)
			k, err3 := o.Tasks(t.Context(), q)
			if err1 != nil || err2 != nil || err3 != nil {
				t.Fatal(err1, err2, err3)
			}
			return len(c.Calls), len(s.Sessions), len(k.Tasks)
		}
		for _, h := range hosts {
			if calls, sessions, tasks := count(h, "ann of test"); calls != 3 || sessions != 2 || tasks != 2 {
				t.Errorf("before: ann has %d calls, %d sessions and %d tasks", calls, sessions, tasks)
			}
		}
		if c, err := o.Calls(t.Context(), operator.Query{Principal: "ann", Limit: 2}); err != nil || len(c.Calls) != 2 || c.More != 1 || c.Calls[0].Principal != "ann of test" {
			t.Errorf("ann, by her subject: %+v, %v", c, err)
		}
		if c, err := o.Calls(t.Context(), operator.Query{Server: "/elsewhere"}); err != nil || len(c.Calls) != 0 {
			t.Errorf("of another server: %+v, %v", c, err)
		}
		ended, err := o.EndPrincipal(t.Context(), "ann of test")
		if err != nil || ended != (operator.Ended{Calls: 3, Sessions: 2, Tasks: 2}) {
			t.Errorf("ended: %+v, %v", ended, err)
		}
		synctest.Wait()
		for i, x := range theirs["ann"] {
			events := host.Payloads(x.stream.All())
			if n := strings.Count(strings.Join(events, "\n"), fault("1")); n != 1 {
				t.Errorf("node %d: the stream has the response %d times: %q", i, n, events)
			}
			host.Equal(t, "response of the session's plain call", (<-x.plain).Body, fault("2"))
			host.Equal(t, "response of the stateless call", (<-x.stateless).Body, fault(x.id))
			if _, over := x.listens.Now(); !over {
				t.Errorf("node %d: ann still listens", i)
			}
			if a := x.session.Post(host.Method("5", "tools/list", "")); a.StatusCode != 404 {
				t.Errorf("node %d: a request of the session: %s %s", i, a.Status, a.Body)
			}
		}
		for i, h := range hosts {
			if calls, sessions, tasks := count(h, "ann of test"); calls != 0 || sessions != 0 || tasks != 0 {
				t.Errorf("then: ann has %d calls, %d sessions and %d tasks", calls, sessions, tasks)
			}
			if calls, sessions, tasks := count(h, "bob of test"); calls != 3 || sessions != 2 || tasks != 2 {
				t.Errorf("then: bob has %d calls, %d sessions and %d tasks", calls, sessions, tasks)
			}
			if _, over := theirs["bob"][i].listens.Now(); over {
				t.Errorf("node %d: bob listens no more", i)
			}
		}
		host.As(hosts[1].Client(), "ann").Initialize(`{}`)
		if _, err := o.EndPrincipal(t.Context(), ""); err != operator.ErrNoPrincipal {
			t.Errorf("nobody: %v", err)
		}
		if ended, err := o.EndPrincipal(t.Context(), "carol"); err != nil || ended != (operator.Ended{}) {
			t.Errorf("carol, who has nothing: %+v, %v", ended, err)
		}
		if ended, err := hosts[1].Runtime.Operator().EndPrincipal(t.Context(), "bob of test"); err != nil || ended != (operator.Ended{Calls: 3, Sessions: 2, Tasks: 2}) {
			t.Errorf("bob, by the other node: %+v, %v", ended, err)
		}
		for i, x := range theirs["bob"] {
			<-x.plain
			<-x.stateless
			x.stream.All()
			close(all[i].goOn)
		}
	})
}

// TestNamesOfPrincipals: who is named alike in part is another principal, and a name that a script left empty is nobody's.
func TestNamesOfPrincipals(t *testing.T) {
	t.Parallel()
	kit.Bubble(t, func(t *testing.T) {
		h := host.New(t, troupe.Options{DrainDelay: -1, Authenticate: host.User}, nil)
		w := addRunaways(h.Server, troupe.Tool{})
		var all []<-chan *kit.Answer
		for _, name := range []string{"duke", "duke of york", ""} {
			c := h.Client()
			if name != "" {
				host.As(c, name)
			}
			all = append(all, c.Initialize(`{}`).PostLater(host.Call("1", "silent", `{}`)))
		}
		synctest.Wait()
		o := h.Runtime.Operator()
		for _, nobody := range []string{"", " ", " of ", " of test"} {
			if ended, err := o.EndPrincipal(t.Context(), nobody); err != operator.ErrNoPrincipal {
				t.Errorf("%q: %+v, %v", nobody, ended, err)
			}
		}
		for _, name := range []string{"duke", "duke of york of test", "anon"} {
			if ended, err := o.EndPrincipal(t.Context(), name); err != nil || ended != (operator.Ended{Calls: 1, Sessions: 0}) && ended != (operator.Ended{Calls: 1, Sessions: 1}) {
				t.Errorf("%q: %+v, %v", name, ended, err)
			}
			host.Equal(t, name, (<-all[0]).Body, fault("1"))
			all = all[1:]
		}
		close(w.goOn)
	})
}

// TestEndSessionWithCalls ends a session whose calls run on two nodes: each has one response that says so.
func TestEndSessionWithCalls(t *testing.T) {
	var all []*runaways
	host.Fleet(t, 2, troupe.Options{DrainDelay: -1}, func(h *host.Host) {
		all = append(all, addRunaways(h.Server, troupe.Tool{}))
	}, func(t *testing.T, hosts []*host.Host) {
		c := hosts[0].Session()
		one := c.Post(host.Call("1", "talks", `{}`))
		two := hosts[1].Moved(c).PostLater(host.Call("2", "silent", `{}`))
		synctest.Wait()
		o := hosts[0].Runtime.Operator()
		page, err := o.Sessions(t.Context(), operator.Query{})
		if err != nil || len(page.Sessions) != 1 {
			t.Fatalf("sessions: %+v, %v", page, err)
		}
		if s, err := o.EndSession(t.Context(), page.Sessions[0].ID); err != nil || s.ID != page.Sessions[0].ID {
			t.Errorf("ended: %+v, %v", s, err)
		}
		events := host.Payloads(one.All())
		if n := strings.Count(strings.Join(events, "\n"), fault("1")); n != 1 {
			t.Errorf("the stream has the response %d times: %q", n, events)
		}
		host.Equal(t, "response of the call on the other node", (<-two).Body, fault("2"))
		if _, err := o.EndSession(t.Context(), page.Sessions[0].ID); err != operator.ErrNoSession {
			t.Errorf("ended once more: %v", err)
		}
		for _, w := range all {
			close(w.goOn)
		}
	})
}

// TestDrainByOperator drains a Runtime that a program serves with its own http.Server: the program is told.
func TestDrainByOperator(t *testing.T) {
	t.Parallel()
	kit.Bubble(t, func(t *testing.T) {
		h := host.New(t, troupe.Options{DrainDelay: -1}, nil)
		o := h.Runtime.Operator()
		if d, err := o.Draining(t.Context()); err != nil || d.Draining {
			t.Errorf("before: %+v, %v", d, err)
		}
		if d, err := o.Drain(t.Context()); err != nil || !d.Draining {
			t.Errorf("drain: %+v, %v", d, err)
		}
		<-h.Runtime.Dismissed()
		if err := h.Runtime.Drain(t.Context()); err != nil {
			t.Errorf("the program's own drain: %v", err)
		}
		if h.Runtime.Ready() == nil {
			t.Error("it is ready")
		}
		if _, err := o.Drain(t.Context()); err != operator.ErrDraining {
			t.Errorf("drain once more: %v", err)
		}
		if all, err := o.Nodes(t.Context()); err != nil || len(all) != 1 || !all[0].Self || !all[0].Load.Draining {
			t.Errorf("nodes: %+v, %v", all, err)
		}
	})
}

// TestDrainOfAPipeByOperator ends ServePipe, as a signal does.
func TestDrainOfAPipeByOperator(t *testing.T) {
	t.Parallel()
	kit.Bubble(t, func(t *testing.T) {
		p := host.NewPipe(t, troupe.Options{DrainDelay: -1})
		p.Initialize("2025-11-25")
		if _, err := p.Runtime.Operator().Drain(t.Context()); err != nil {
			t.Errorf("drain: %v", err)
		}
		if rest, err := io.ReadAll(p.Out); err != nil || len(rest) != 0 {
			t.Errorf("the pipe ends with %q, %v", rest, err)
		}
	})
}

// TestQueries that cannot be asked are told what is wrong.
func TestQueries(t *testing.T) {
	t.Parallel()
	kit.Bubble(t, func(t *testing.T) {
		o := host.New(t, troupe.Options{}, nil).Runtime.Operator()
		for want, q := range map[string]operator.Query{
			`state is "x": want one of ["running"`: {State: "x"},
			"limit is -1":                          {Limit: -1},
			"limit is 1001":                        {Limit: 1001},
		} {
			if _, err := o.Calls(t.Context(), q); err == nil || !strings.Contains(err.Error(), want) {
				t.Errorf("%+v: %v", q, err)
			}
		}
	})
}
