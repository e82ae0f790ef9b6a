package backend

import (
	"errors"
	"fmt"
	"log/slog"
	"slices"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/troupe-run/troupe/host"
	"github.com/troupe-run/troupe/internal/backend/journal"
	"github.com/troupe-run/troupe/internal/backend/pool"
)

// reportOf is the report of a backend.
func reportOf(t *testing.T, b *Backends, name string) Report {
	t.Helper()
	all, err := Operations{b}.Reports(t.Context())
	i := slices.IndexFunc(all, func(r Report) bool { return r.Name == name })
	if err != nil || i < 0 {
		t.Fatalf("there is no report of %s: %v", name, err)
	}
	return all[i]
}

// written are the lines of the journal of a backend.
func written(t *testing.T, b *Backends, name string) string {
	t.Helper()
	page, err := Operations{b}.Journal(name, "")
	if err != nil {
		t.Fatal(err)
	}
	var all strings.Builder
	for _, l := range page.Lines {
		fmt.Fprintf(&all, "%d %t %s\n", l.Of.PID(), l.Stderr, l.Text)
	}
	return all.String()
}

// TestReports: an operator sees whose instances are, what they do and list, and how the last ones have ended, without secrets.
func TestReports(t *testing.T) {
	var release chan struct{}
	held := &maker{handle: func(s *server, m message) {
		if m.Method == "tools/call" {
			<-release
		}
		s.result(m, `{}`)
	}}
	broken := &maker{begin: func(*server) error { return errors.New("it fails") }}
	failing := made("failing", broken, host.Options{})
	const secret = "cannot" // as in why it does not start
	failing.Mask = func(text string) string { return strings.ReplaceAll(text, secret, "***") }
	all := []Backend{made("held", held, host.Options{}), made("shared", &maker{handle: numbered}, host.Options{Isolation: host.Shared}), failing}
	inBubble(t, Config{}, all, func(t *testing.T, b *Backends) {
		release = make(chan struct{})
		if r := reportOf(t, b, "held"); r.Known != nil || len(r.Instances) != 0 || r.Pool.Failures != 0 {
			t.Errorf("before any call: %+v", r)
		}
		var calls sync.WaitGroup
		for _, c := range []Caller{{Session: "tenant/id", Principal: "tenant"}, {Principal: "p"}, {Alone: true}} {
			calls.Go(func() { call(t, b, "held", c, Request{}) })
			synctest.Wait()
		}
		call(t, b, "shared", Caller{}, Request{})
		call(t, b, "failing", Caller{}, Request{})
		time.Sleep(100 * time.Millisecond)
		synctest.Wait()

		r := reportOf(t, b, "held")
		if len(r.Instances) != 3 || r.Pool.Serving != 3 || r.Known == nil || len(r.Known.Items[0]) != 1 || fmt.Sprint(r.Revisions) != "[2025-11-25]" {
			t.Fatalf("with three calls: %+v", r)
		}
		for i, want := range []InstanceReport{
			{Holder: OfSession, Session: "tenant/id", Principal: "tenant"}, {Holder: OfPrincipal, Principal: "p"}, {Holder: OfCall},
		} {
			in := r.Instances[i]
			want.Instance, want.Began = pool.Instance{ID: in.ID, Activity: pool.Serving, Calls: 1}, in.Began
			if in != want || in.Began.IsZero() {
				t.Errorf("instance %d is %+v, want %+v", i, in, want)
			}
		}
		if r := reportOf(t, b, "shared"); len(r.Instances) != 1 || r.Instances[0].Holder != OfAll || r.Instances[0].Activity != pool.Idle {
			t.Errorf("what all share: %+v", r.Instances)
		}
		r = reportOf(t, b, "failing")
		if r.Pool.Failures != 1 || len(r.Ends) != 1 || r.Failed != r.Ends[0] || r.Failed.Failed != refusals[pool.FailedTo] || !strings.Contains(r.Failed.Status, "the backend *** be") {
			t.Errorf("what does not start: %+v", r)
		}
		if lines := written(t, b, "failing"); !strings.Contains(lines, "has not started") || !strings.Contains(lines, "the backend *** be") || strings.Contains(lines, secret) {
			t.Errorf("its journal is\n%s", lines)
		}
		if lines := written(t, b, "shared"); !strings.HasPrefix(lines, "0 false an instance of a backend has started, took: ") {
			t.Errorf("the journal of what runs is\n%s", lines)
		}
		close(release)
		calls.Wait()
		b.Close(t.Context(), 0)
		if _, err := (Operations{b}).Reports(t.Context()); !errors.Is(err, ErrClosed) {
			t.Errorf("after Close: %v", err)
		}
	})
}

// TestOperatorRestarts: new instances serve from the restart on, the old ones end with their calls, or at once, and sessions hear of it.
func TestOperatorRestarts(t *testing.T) {
	var release chan struct{}
	mk := &maker{}
	mk.handle = func(s *server, m message) {
		if strings.Contains(string(m.Params), "wait") {
			select {
			case <-release:
			case <-s.ctx.Done():
				return
			}
		}
		numbered(s, m)
	}
	told := &changes{}
	inBubble(t, Config{Lost: told.lost}, []Backend{made("made", mk, host.Options{})}, func(t *testing.T, b *Backends) {
		release = make(chan struct{})
		restart := func(atOnce bool, want pool.Restart) {
			t.Helper()
			if did, err := (Operations{b}).Restart("made", atOnce); err != nil || did != want {
				t.Errorf("the restart has done %+v, %v, want %+v", did, err, want)
			}
			synctest.Wait()
		}
		var waiting sync.WaitGroup
		var late string
		wait := func(safe bool) {
			waiting.Go(func() {
				late = call(t, b, "made", Caller{Session: "a"}, Request{Params: []byte(`{"wait":1}`), Safe: safe})
			})
			synctest.Wait()
		}
		wait(false)
		call(t, b, "made", Caller{Session: "b"}, Request{})
		restart(false, pool.Restart{Ended: 1, Ending: 1, Calls: 1})
		if got := call(t, b, "made", Caller{Session: "b"}, Request{}); got != `{"server":3}` {
			t.Errorf("who had an idle one is answered with %s", got)
		}
		if got := call(t, b, "made", Caller{Session: "a"}, Request{}); got != `{"server":4}` {
			t.Errorf("who has one that serves is answered with %s", got)
		}
		if got := told.all(); fmt.Sprint(got) != `[made "b" lost: restarted]` {
			t.Errorf("sessions were told %q", got)
		}
		release <- struct{}{}
		waiting.Wait()
		synctest.Wait()
		if late != `{"server":1}` {
			t.Errorf("the call that ran was answered with %s", late)
		}
		if got := told.all(); len(got) != 2 || got[1] != `made "a" lost: restarted` {
			t.Errorf("sessions were told %q", got)
		}

		wait(false)
		restart(true, pool.Restart{Ended: 2, Calls: 1})
		waiting.Wait()
		if !strings.HasPrefix(late, "error: backend made: ") {
			t.Errorf("a call that was cut short is answered with %s", late)
		}
		wait(true)
		restart(true, pool.Restart{Ended: 1, Calls: 1})
		release <- struct{}{}
		waiting.Wait()
		if n := len(mk.servers()); late != fmt.Sprintf(`{"server":%d}`, n) {
			t.Errorf("a safe call is answered with %s, of %d servers", late, n)
		}
		if r := reportOf(t, b, "made"); r.Pool.Failures != 0 || r.Failed != (journal.End{}) {
			t.Errorf("a restart is no failure: %+v", r.Failed)
		}
		if lines := written(t, b, "made"); strings.Count(lines, "an operator has restarted a backend") != 3 || strings.Count(lines, "was ended, reason: restarted") != 5 {
			t.Errorf("the journal is\n%s", lines)
		}
		if _, err := (Operations{b}).Restart("other", false); !errors.Is(err, ErrNoBackend) {
			t.Errorf("what there is not: %v", err)
		}
		b.Close(t.Context(), 0)
		if _, err := (Operations{b}).Restart("made", false); !errors.Is(err, ErrClosed) {
			t.Errorf("after Close: %v", err)
		}
	})
}

// TestRestartWhileItStarts: a start that hangs makes way for another one, which serves whoever waits.
func TestRestartWhileItStarts(t *testing.T) {
	mk := &maker{handle: numbered, begin: func(s *server) error {
		if s.number == 1 {
			<-s.ctx.Done()
		}
		return nil
	}}
	inBubble(t, Config{}, []Backend{made("made", mk, host.Options{})}, func(t *testing.T, b *Backends) {
		var waiting sync.WaitGroup
		var got string
		waiting.Go(func() { got = call(t, b, "made", Caller{Session: "a"}, Request{}) })
		synctest.Wait()
		if did, err := (Operations{b}).Restart("made", false); err != nil || did != (pool.Restart{Ended: 1}) {
			t.Errorf("the restart has done %+v, %v", did, err)
		}
		waiting.Wait()
		if got != `{"server":2}` {
			t.Errorf("who has waited is answered with %s", got)
		}
	})
}

// TestJournalHasAllLines: what is not logged because it comes too fast is in the journal, masked as in the log.
func TestJournalHasAllLines(t *testing.T) {
	t.Parallel()
	of := made("made", &maker{}, host.Options{StderrRate: 1})
	of.Mask = func(text string) string { return strings.ReplaceAll(text, "s3cret", "***") }
	b := New(Config{Log: slog.New(slog.DiscardHandler)})
	defer b.Close(t.Context(), 0)
	b.Configure(t.Context(), []Backend{of})
	p := b.stderr.watch("id", &of)
	for n := range 10 {
		b.stderr.write("id", fmt.Appendf(nil, "line %d s3cret", n), 0)
	}
	p.Started(7)
	b.stderr.write("id", []byte("last"), 3)
	lines := written(t, b, "made")
	if strings.Count(lines, "\n") != 12 || !strings.HasPrefix(lines, "7 true line 0 ***\n") || !strings.HasSuffix(lines, "7 true line 9 ***\n7 false 3 lines of standard error came too fast, and are lost\n7 true last\n") {
		t.Errorf("the journal is\n%s", lines)
	}
	if _, err := (Operations{b}).Journal("other", ""); !errors.Is(err, ErrNoBackend) {
		t.Errorf("what there is not: %v", err)
	}
}
