package recovery_test

import (
	"context"
	"fmt"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/troupe-run/troupe"
	"github.com/troupe-run/troupe/test/kit"
	"github.com/troupe-run/troupe/test/spec/host"
)

func TestSessionsAndStreamsSurviveACrash(t *testing.T) {
	kit.Bubble(t, func(t *testing.T) {
		dir := t.TempDir()
		h := host.New(t, troupe.Options{Dir: dir}, nil)
		c := h.Session()
		c.Post(`{"jsonrpc":"2.0","id":1,"method":"logging/setLevel","params":{"level":"error"}}`)
		done := c.Post(host.CallWith("2", "count", `{"to":3,"delay_ms":10}`, "2")).All()
		safe := c.Post(host.CallWith("3", "count", `{"to":6,"delay_ms":1000}`, "3"))
		var safeGot []kit.Event
		for range 3 { // priming, 1, 2
			e, _ := safe.Next()
			safeGot = append(safeGot, e)
		}
		never := c.Post(host.Call("4", "sleep", `{"ms":3600000}`))
		neverPrime, _ := never.Next()
		asked := c.Post(host.Call("5", "ask", `{"question":"who?"}`))
		asked.Next()
		question, _ := asked.Next()
		early := c.Post(host.Call("8", "ask", `{"question":"when?"}`))
		early.Next()
		question8, _ := early.Next()
		gone := c.Post(host.CallWith("9", "count", `{"to":1000,"delay_ms":1000}`, "9"))
		gonePrime, _ := gone.Next()
		c.Post(`{"jsonrpc":"2.0","method":"notifications/cancelled","params":{"requestId":9}}`)
		answered := c.Post(host.Call("6", "askslow", `{"question":"where?"}`))
		answeredPrime, _ := answered.Next()
		q2, _ := answered.Next()
		if a := c.Post(host.AnswerTo(q2.Data, `{"action":"accept","content":{"answer":"here"}}`)); a.StatusCode != 202 {
			t.Fatalf("answer: %s", a.Status)
		}

		_, m := host.Crashed(t, dir, troupe.Options{}, c)
		// The session is there, with its log level.
		a := m.Post(host.Call("7", "log", `{}`))
		if got := host.Payloads(a.All()); len(got) != 2 {
			t.Errorf("at level error: %v", got)
		}
		// A finished call is replayed with its response.
		if diff := cmp.Diff(done[2:], host.Untimed(t, m.Get(done[1].ID).All())); diff != "" {
			t.Errorf("finished call (-before +after):\n%s", diff)
		}
		// A safe call runs again, and sends nothing twice.
		got := append(host.Payloads(safeGot), host.Payloads(m.Get(safeGot[2].ID).All())...)
		var want []string
		for i := 1; i <= 6; i++ {
			want = append(want, fmt.Sprintf(`{"jsonrpc":"2.0","method":"notifications/progress","params":{"progressToken":3,"progress":%d,"total":6}}`, i))
		}
		want = append(want, host.TextResult("3", "counted to 6"))
		if diff := cmp.Diff(want, got); diff != "" {
			t.Errorf("safe call (-want +got):\n%s", diff)
		}
		// Any other call ends with -32010, once, also when its stream is resumed again.
		lost := []string{`{"jsonrpc":"2.0","id":4,"error":{"code":-32010,"message":"the node running this call was lost; whether it took effect is unknown"}}`}
		for range 2 {
			if diff := cmp.Diff(lost, host.Payloads(m.Get(neverPrime.ID).All())); diff != "" {
				t.Errorf("unsafe call (-want +got):\n%s", diff)
			}
		}
		// An answer finds its call although the client has not resumed the call's stream.
		if a := m.Post(host.AnswerTo(question8.Data, `{"action":"accept","content":{"answer":"now"}}`)); a.StatusCode != 202 {
			t.Fatalf("answer before the resume: %s", a.Status)
		}
		if diff := cmp.Diff([]string{host.TextResult("8", `accept {\"answer\":\"now\"}`)}, host.Payloads(m.Get(question8.ID).All())); diff != "" {
			t.Errorf("question answered before its stream was resumed (-want +got):\n%s", diff)
		}
		// Cancelled calls stay cancelled.
		if rest := host.Payloads(m.Get(gonePrime.ID).All()); len(rest) > 1 {
			t.Errorf("a cancelled call went on: %v", rest)
		}
		// The open question is not asked again, and takes an answer to its old id.
		r := m.Get(question.ID)
		if a := m.Post(host.AnswerTo(question.Data, `{"action":"accept","content":{"answer":"me"}}`)); a.StatusCode != 202 {
			t.Fatalf("answer after the crash: %s", a.Status)
		}
		if diff := cmp.Diff([]string{host.TextResult("5", `accept {\"answer\":\"me\"}`)}, host.Payloads(r.All())); diff != "" {
			t.Errorf("open question (-want +got):\n%s", diff)
		}
		// Answered questions are not asked again either.
		if diff := cmp.Diff([]string{q2.Data, host.TextResult("6", `accept {\"answer\":\"here\"}`)}, host.Payloads(m.Get(answeredPrime.ID).All())); diff != "" {
			t.Errorf("answered question (-want +got):\n%s", diff)
		}
		for _, open := range []*kit.Answer{safe, never, asked, early, gone, answered} {
			open.Close()
		}
		h.Runtime.Close(context.Background())
	})
}

func TestDrainAnswersAndHandsOver(t *testing.T) {
	kit.Bubble(t, func(t *testing.T) {
		dir := t.TempDir()
		h := host.New(t, troupe.Options{Dir: dir, DrainDelay: -1, DrainWait: 10 * time.Second}, nil)
		c := h.Session()
		quick := c.Post(host.Call("1", "sleep", `{"ms":5000}`))
		never := c.Post(host.Call("2", "sleep", `{"ms":3600000}`))
		safe := c.Post(host.CallWith("3", "count", `{"to":20,"delay_ms":1000}`, "3"))
		prime, _ := safe.Next()
		idle := c.Get("")
		idle.Next()

		ctx, stop := context.WithCancel(t.Context())
		served := make(chan error, 1)
		ln := kit.NewListener()
		go func() { served <- h.Runtime.ServeOn(ctx, ln) }()
		time.Sleep(time.Second)
		stop()
		if a := c.Post(host.Call("9", "echo", `{"text":"x"}`)); a.StatusCode != 200 {
			t.Errorf("new work while draining: %s", a.Status)
		}
		if rest := idle.All(); len(rest) != 0 {
			t.Errorf("the idle stream got %v", rest)
		}
		if diff := cmp.Diff([]string{host.TextResult("1", "slept")}, host.Payloads(quick.All())); diff != "" {
			t.Errorf("a call that ends in time (-want +got):\n%s", diff)
		}
		host.Contains(t, "an unsafe call that does not", fmt.Sprint(host.Payloads(never.All())), "-32010")
		before := host.Payloads(safe.All())
		if err := <-served; err != nil {
			t.Errorf("serve: %v", err)
		}
		h2 := host.New(t, troupe.Options{Dir: dir}, nil)
		m := h2.Moved(c)
		after := host.Payloads(m.Get(prime.ID).All())
		if len(after) != 21 || len(before) == 0 || len(before) > 12 {
			t.Errorf("a safe call: %d events before, %d in all after the restart, want 21", len(before), len(after))
		}
		if diff := cmp.Diff(before, after[:len(before)]); diff != "" {
			t.Errorf("what was sent before differs (-before +after):\n%s", diff)
		}
		host.Equal(t, "the answer", after[len(after)-1], host.TextResult("3", "counted to 20"))
	})
}

// TestDrainHasClientsComeBack checks how a drain ends the streams of idle sessions, and of calls that are left to a
// resume: what makes a client come back depends on its revision.
func TestDrainHasClientsComeBack(t *testing.T) {
	for _, revision := range []string{"2025-03-26", "2025-06-18", "2025-11-25"} {
		t.Run(revision, func(t *testing.T) {
			kit.Bubble(t, func(t *testing.T) {
				h := host.New(t, troupe.Options{Dir: t.TempDir(), DrainDelay: -1, DrainWait: 3 * time.Second}, nil)
				c := h.Client().InitializeAs(revision, `{}`)
				idle := c.Get("")
				safe := c.Post(host.CallWith("1", "count", `{"to":20,"delay_ms":1000}`, "1"))
				ctx, stop := context.WithCancel(t.Context())
				served := make(chan error, 1)
				go func() { served <- h.Runtime.ServeOn(ctx, kit.NewListener()) }()
				time.Sleep(time.Second)
				stop()
				idle.All()
				safe.All()
				if want := revision < "2025-11-25"; idle.Broke != want || safe.Broke != want {
					t.Errorf("broken off: the session's own stream %t, the call's %t, want %t", idle.Broke, safe.Broke, want)
				}
				if err := <-served; err != nil {
					t.Error(err)
				}
			})
		})
	}
}
