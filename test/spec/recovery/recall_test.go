package recovery_test

import (
	"context"
	"fmt"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/troupe-run/troupe"
	"github.com/troupe-run/troupe/mcp"
	"github.com/troupe-run/troupe/test/kit"
	"github.com/troupe-run/troupe/test/kit/when"
	"github.com/troupe-run/troupe/test/spec/host"
)

// These tests check that everything that a second run, or a resume, needs outlives the
// event log, which forgets by count, bytes and age.

// nextWith returns the next event whose data has text in it.
func nextWith(t *testing.T, a *kit.Answer, text string) kit.Event {
	t.Helper()
	for {
		e, ok := a.Next()
		if !ok {
			t.Fatalf("the stream ended before %q", text)
		}
		if strings.Contains(e.Data, text) {
			return e
		}
	}
}

// accept answers a question.
func accept(t *testing.T, c *kit.Client, question kit.Event, answer string) {
	t.Helper()
	if r := c.Post(host.AnswerTo(question.Data, `{"action":"accept","content":{"answer":"`+answer+`"}}`)); r.StatusCode != 202 {
		t.Fatalf("answer: %s %s", r.Status, r.Body)
	}
}

// TestAnswersOutliveTheLog has a call ask twice with one key, and the log forget the
// first answer in between. The run after a crash gets the right answer to each question.
func TestAnswersOutliveTheLog(t *testing.T) {
	when.Long(t, "long logs")
	t.Parallel()
	for name, tt := range map[string]struct {
		between func(ctx context.Context, call *troupe.Call) error
		answer  string
		want    string
	}{
		"1,100 appends in between": {want: "NO, YES", answer: "NO", between: func(ctx context.Context, call *troupe.Call) error {
			for i := range 1100 {
				if err := call.Progress(ctx, float64(i+1), 1100, ""); err != nil {
					return err
				}
				if err := host.Sleep(ctx, 20); err != nil {
					return err
				}
			}
			return nil
		}},
		"5 MiB in between": {want: "NO, YES", answer: "NO", between: func(ctx context.Context, call *troupe.Call) error {
			for i := range 50 {
				if err := call.Progress(ctx, float64(i+1), 50, strings.Repeat("x", 100<<10)); err != nil {
					return err
				}
				if err := host.Sleep(ctx, 100); err != nil {
					return err
				}
			}
			return nil
		}},
		"20 minutes in between": {want: "NO, YES", answer: "NO", between: func(ctx context.Context, _ *troupe.Call) error {
			return host.Sleep(ctx, 20*60*1000)
		}},
		// Answers that the record cannot hold cost the call its right to run again.
		"an answer of 70 KiB": {want: "-32010", answer: strings.Repeat("N", 70<<10), between: func(ctx context.Context, _ *troupe.Call) error {
			return host.Sleep(ctx, 20*60*1000)
		}},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			kit.Bubble(t, func(t *testing.T) {
				add := func(h *host.Host) {
					troupe.AddTool(h.Server, troupe.Tool{Name: "drop", Needs: mcp.CapClientElicitationForm, Rerun: troupe.Safe},
						func(ctx context.Context, call *troupe.Call, _ struct{}) (string, error) {
							a, err := call.Elicit(ctx, "Drop table A?", host.Form)
							if err != nil {
								return "", err
							}
							if call.Attempt() == 1 {
								if err := tt.between(ctx, call); err != nil {
									return "", err
								}
							}
							b, err := call.Elicit(ctx, "Drop table B?", host.Form)
							if err != nil {
								return "", err
							}
							if call.Attempt() == 1 {
								return "", host.Sleep(ctx, 3600000)
							}
							return fmt.Sprintf("%v, %v", field(a.Content), field(b.Content)), nil
						})
				}
				dir := t.TempDir()
				h := host.New(t, troupe.Options{Dir: dir}, nil)
				add(h)
				c := h.Session()
				a := c.Post(host.CallWith("1", "drop", `{}`, `"p"`))
				accept(t, c, nextWith(t, a, "Drop table A?"), tt.answer)
				last := nextWith(t, a, "Drop table B?")
				accept(t, c, last, "YES")
				after, m := host.Crashed(t, dir, troupe.Options{}, c)
				add(after)
				a.Close()
				if got := resumed(t, m, last.ID); len(got) != 1 || !strings.Contains(got[0], tt.want) {
					t.Errorf("the second run ended with %.300q, want %s", got, tt.want)
				}
			})
		})
	}
}

// resumed returns the messages that a resume from an event id brings.
func resumed(t *testing.T, c *kit.Client, id string) []string {
	t.Helper()
	r := c.Get(id)
	if !r.Stream() {
		t.Fatalf("resume: %s %s", r.Status, r.Body)
	}
	return host.Payloads(r.All())
}

// field returns the answer in the test form.
func field(content []byte) string {
	_, text, _ := strings.Cut(string(content), `:"`)
	return strings.TrimSuffix(text, `"}`)
}

// TestBatchOutlivesTheLog checks that calls of a batch that were answered or cancelled
// stay so though the log has forgotten it, whatever class the calls are of.
func TestBatchOutlivesTheLog(t *testing.T) {
	t.Parallel()
	when.Long(t, "virtual hours on a disk")
	kit.Bubble(t, func(t *testing.T) {
		var runs [3]atomic.Int32
		add := func(h *host.Host) {
			troupe.AddTool(h.Server, troupe.Tool{Name: "long", Rerun: troupe.Safe}, func(ctx context.Context, c *troupe.Call, _ struct{}) (string, error) {
				for i := range 60 {
					if c.Attempt() > 1 {
						return "long", nil
					}
					_ = c.Progress(ctx, float64(i+1), 60, "")
					if err := host.Sleep(ctx, 60000); err != nil {
						return "", err
					}
				}
				return "", nil
			})
			for i, tool := range []troupe.Tool{{Name: "pay"}, {Name: "safe", Rerun: troupe.Safe}, {Name: "cancelled", Rerun: troupe.Safe}} {
				troupe.AddTool(h.Server, tool, func(ctx context.Context, c *troupe.Call, _ struct{}) (string, error) {
					runs[i].Add(1)
					if tool.Name == "cancelled" {
						return "", host.Sleep(ctx, 3600000)
					}
					return tool.Name, host.Sleep(ctx, 1000)
				})
			}
		}
		dir := t.TempDir()
		h := host.New(t, troupe.Options{Dir: dir}, nil)
		add(h)
		c := h.BatchingSession()
		a := c.Post(host.Batch(host.CallWith("1", "long", `{}`, `"p"`), host.Call("2", "pay", `{}`), host.Call("3", "safe", `{}`), host.Call("4", "cancelled", `{}`)))
		time.Sleep(5 * time.Second)
		c.Post(`{"jsonrpc":"2.0","method":"notifications/cancelled","params":{"requestId":4}}`)
		var last kit.Event
		for begin := time.Now(); time.Since(begin) < 20*time.Minute; {
			last, _ = a.Next()
		}
		for range 2 { // a second crash reads the record that the first takeover wrote
			after, m := host.Crashed(t, dir, troupe.Options{}, c)
			add(after)
			if diff := cmp.Diff([]string{host.TextResult("1", "long")}, resumed(t, m, last.ID)); diff != "" {
				t.Errorf("after the crash (-want +got):\n%s", diff)
			}
		}
		a.Close()
		for i := range runs {
			if n := runs[i].Load(); n != 1 {
				t.Errorf("call %d ran %d times", i+2, n)
			}
		}
	})
}

// TestNewestIDOutlivesItsEvent checks that a client can resume from its newest event id
// however long the call is silent, even if entries that clients never see came after it,
// and if the process was lost meanwhile.
func TestNewestIDOutlivesItsEvent(t *testing.T) {
	when.Long(t, "hours of renewals")
	t.Parallel()
	for name, rerun := range map[string]troupe.Rerun{"never": troupe.Never, "safe": troupe.Safe} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			kit.Bubble(t, func(t *testing.T) {
				add := func(h *host.Host) {
					troupe.AddTool(h.Server, troupe.Tool{Name: "deploy", Needs: mcp.CapClientElicitationForm, Rerun: rerun},
						func(ctx context.Context, call *troupe.Call, _ struct{}) (string, error) {
							if _, err := call.Elicit(ctx, "Sure?", host.Form); err != nil {
								return "", err
							}
							return "deployed", host.Sleep(ctx, 50*60*1000)
						})
				}
				dir := t.TempDir()
				h := host.New(t, troupe.Options{Dir: dir}, nil)
				add(h)
				c := h.Session()
				a := c.Post(host.Call("1", "deploy", `{}`))
				question := nextWith(t, a, "Sure?")
				accept(t, c, question, "yes")
				ended := make(chan struct{})
				go func() { a.All(); close(ended) }()
				time.Sleep(14 * time.Minute)
				a.Close()
				<-ended
				r := c.Get(question.ID)
				if !r.Stream() {
					t.Fatalf("resume with the newest id: %s %s", r.Status, r.Body)
				}
				rest := host.Reading(r)
				after, m := host.Crashed(t, dir, troupe.Options{}, c)
				add(after)
				deployed := host.TextResult("1", "deployed")
				want := deployed
				if rerun == troupe.Never {
					want = `{"jsonrpc":"2.0","id":1,"error":{"code":-32010,"message":"the node running this call was lost; whether it took effect is unknown"}}`
				}
				if diff := cmp.Diff([]string{want}, resumed(t, m, question.ID)); diff != "" {
					t.Errorf("resumed after a crash (-want +got):\n%s", diff)
				}
				if diff := cmp.Diff([]string{deployed}, rest()); diff != "" {
					t.Errorf("resumed (-want +got):\n%s", diff)
				}
			})
		})
	}
}

// TestQuestionOutlivesItsEvent checks that a question that was open for longer than
// events live, and over a crash, takes its answer.
func TestQuestionOutlivesItsEvent(t *testing.T) {
	t.Parallel()
	when.Long(t, "virtual hours on a disk")
	kit.Bubble(t, func(t *testing.T) {
		o := troupe.Options{Limits: troupe.Limits{MaxAsk: 2 * time.Hour, MaxCall: 3 * time.Hour}}
		dir := t.TempDir()
		o.Dir = dir
		h := host.New(t, o, nil)
		c := h.Session()
		a := c.Post(host.Call("1", "ask", `{"question":"who?"}`))
		question := nextWith(t, a, "who?")
		go a.All()
		time.Sleep(time.Hour)
		_, m := host.Crashed(t, dir, o, c)
		accept(t, m, question, "me")
		if diff := cmp.Diff([]string{host.TextResult("1", `accept {\"answer\":\"me\"}`)}, resumed(t, m, question.ID)); diff != "" {
			t.Errorf("answered after an hour and a crash (-want +got):\n%s", diff)
		}
		a.Close()
	})
}

// TestPowerCutTakesNoIDTwice restores a copy of the store, as a power cut leaves the last
// flush, while the client is an event ahead. The client's id is refused, even when
// another event has that number; a refused resume runs nothing again; and two processes
// that begin from the same copy send different ids.
func TestPowerCutTakesNoIDTwice(t *testing.T) {
	t.Parallel()
	kit.Bubble(t, func(t *testing.T) {
		var again atomic.Int32
		add := func(h *host.Host) {
			troupe.AddTool(h.Server, troupe.Tool{Name: "work", Rerun: troupe.Safe}, func(ctx context.Context, c *troupe.Call, _ struct{}) (string, error) {
				if c.Attempt() > 1 {
					again.Add(1)
				}
				for i := range 12 {
					if err := c.Progress(ctx, float64(i+1), 12, ""); err != nil {
						return "", err
					}
					if err := host.Sleep(ctx, 1000); err != nil {
						return "", err
					}
				}
				return "the answer", nil
			})
		}
		dir := t.TempDir()
		h := host.New(t, troupe.Options{Dir: dir}, nil)
		add(h)
		c := h.Session()
		a := c.Post(host.CallWith("1", "work", `{}`, `"p"`))
		kept := nextWith(t, a, `"progress":10,`)
		flushed := host.CopyDir(t, dir)
		ahead, _ := a.Next()
		a.Close()
		ids := map[string]bool{kept.ID: true, ahead.ID: true}
		for range 2 {
			after, m := host.Crashed(t, flushed, troupe.Options{}, c)
			add(after)
			refused := func() {
				t.Helper()
				if r := m.Get(ahead.ID); r.StatusCode != 400 || !strings.Contains(r.Body, "-32011") {
					t.Errorf("resume with an id that the power cut took back: %s %s", r.Status, r.Body)
				}
			}
			again.Store(0)
			for range 2 {
				refused()
				time.Sleep(time.Minute)
			}
			if n := again.Load(); n != 0 {
				t.Errorf("a resume that was refused had the call run %d times", n)
			}
			all := m.Get(kept.ID).All()
			if got := host.Payloads(all); len(got) != 3 || got[2] != host.TextResult("1", "the answer") {
				t.Errorf("resumed: %q", got)
			}
			for _, e := range all {
				if e.Data != "" && ids[e.ID] {
					t.Errorf("%s stands for two events, one of them %s", e.ID, e.Data)
				}
				ids[e.ID] = true
			}
			refused()
			if r := m.Get(all[len(all)-1].ID); r.StatusCode != 204 {
				t.Errorf("resume with the id of the last event: %s", r.Status)
			}
		}
	})
}
