package recovery_test

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/troupe-run/troupe"
	"github.com/troupe-run/troupe/test/kit"
	"github.com/troupe-run/troupe/test/spec/host"
)

// A program that serves the Runtime with an http.Server of its own, as host.New does, drains with Runtime.Drain.

// TestDrainOfAnOwnServer drains while a call of each kind runs: the drain waits for the calls that only this process
// can end, and the others go on in the next process.
func TestDrainOfAnOwnServer(t *testing.T) {
	for name, tt := range map[string]struct {
		revision, call string
		want           time.Duration // from the start of the call; the drain begins after a second
		answer         string        // "" if the next process gives it
	}{
		"a call that may not run again":      {"2025-11-25", host.Call("1", "sleep", `{"ms":3000}`), 3 * time.Second, host.TextResult("1", "slept")},
		"a safe call":                        {"2025-11-25", host.CallWith("1", "count", `{"to":60,"delay_ms":1000}`, "1"), time.Second, ""},
		"a client that may not come back":    {"2025-06-18", host.Call("1", "count", `{"to":3,"delay_ms":1000}`), 3 * time.Second, host.TextResult("1", "counted to 3")},
		"a call that waits for its question": {"2025-11-25", host.Call("1", "ask", `{"question":"?"}`), time.Second, ""},
	} {
		t.Run(name, func(t *testing.T) {
			kit.Bubble(t, func(t *testing.T) {
				dir := t.TempDir()
				h := host.New(t, troupe.Options{Dir: dir, DrainDelay: -1}, nil)
				c := h.Unchecked().InitializeAs(tt.revision, `{"elicitation":{}}`)
				began := time.Now()
				a := c.Post(tt.call)
				events := make(chan []kit.Event, 1)
				go func() { events <- a.All() }()
				time.Sleep(time.Until(began.Add(time.Second)))
				if err := h.Runtime.Drain(t.Context()); err != nil {
					t.Errorf("drain: %v", err)
				}
				if took := time.Since(began); took < tt.want || took > tt.want+300*time.Millisecond {
					t.Errorf("it returns %v after the call began, want %v", took, tt.want)
				}
				all := host.Payloads(<-events)
				if got := strings.Join(all[max(0, len(all)-1):], ""); tt.answer != "" && got != tt.answer || tt.answer == "" && strings.Contains(got, `"id":1,`) {
					t.Errorf("the answer is %s, want %q", got, tt.answer)
				}
				if err := h.Runtime.Close(t.Context()); err != nil {
					t.Errorf("close: %v", err)
				}
			})
		})
	}
}

// TestDrainOfAStoreInMemory drains a process whose store ends with it while calls run that could go on in another one otherwise: they end first.
func TestDrainOfAStoreInMemory(t *testing.T) {
	for name, tt := range map[string]struct {
		call string
		age  time.Duration // of the call when the drain begins
		want string
	}{
		"with progress":               {host.CallWith("1", "count", `{"to":5,"delay_ms":1000}`, "1"), time.Second, host.TextResult("1", "counted to 5")},
		"with progress, just begun":   {host.CallWith("1", "count", `{"to":5,"delay_ms":1000}`, "1"), 100 * time.Millisecond, host.TextResult("1", "counted to 5")},
		"silent":                      {host.Call("1", "count", `{"to":5,"delay_ms":1000}`), time.Second, host.TextResult("1", "counted to 5")},
		"silent, just begun":          {host.Call("1", "count", `{"to":5,"delay_ms":1000}`), 100 * time.Millisecond, host.TextResult("1", "counted to 5")},
		"for longer than it may take": {host.Call("1", "count", `{"to":60,"delay_ms":1000}`), time.Second, "-32010"},
	} {
		t.Run(name, func(t *testing.T) {
			kit.Bubble(t, func(t *testing.T) {
				h := host.New(t, troupe.Options{DrainDelay: -1}, nil)
				call := h.Unchecked().InitializeAs("2025-11-25", `{}`).PostLater(tt.call)
				time.Sleep(tt.age)
				if err := h.Runtime.Drain(t.Context()); (err != nil) != (tt.want == "-32010") {
					t.Errorf("drain: %v", err)
				}
				all := host.Payloads((<-call).All())
				host.Contains(t, "its messages", strings.Join(all, "\n"), tt.want)
			})
		})
	}
}

// TestDrainUnderLoad drains while a client calls without a pause. No accepted call is lost, the runtime serves until a
// second before the end, and the end comes.
func TestDrainUnderLoad(t *testing.T) {
	kit.Bubble(t, func(t *testing.T) {
		h := host.New(t, troupe.Options{DrainDelay: -1}, nil)
		long := h.Session().PostLater(host.Call("1", "sleep", `{"ms":5000}`))
		type end struct {
			after time.Duration
			body  string
		}
		began := time.Now()
		ended := make(chan end, 2)
		for i := range 2 { // so that one of them is always in flight
			c := h.Session()
			go func() {
				time.Sleep(time.Duration(i) * 50 * time.Millisecond)
				for {
					a, err := c.Try("POST", host.Call("7", "sleep", `{"ms":100}`))
					if err != nil || a.Body != host.TextResult("7", "slept") {
						ended <- end{time.Since(began), fmt.Sprint(err, a.Body)}
						return
					}
				}
			}()
		}
		time.Sleep(time.Second)
		if err := h.Runtime.Drain(t.Context()); err != nil {
			t.Errorf("drain: %v", err)
		}
		if took := time.Since(began); took < 5*time.Second || took > 6500*time.Millisecond {
			t.Errorf("it returns after %v, want 5 to 6.5 s", took)
		}
		for range 2 {
			if e := <-ended; e.after < 5*time.Second || !strings.Contains(e.body, "retryAfterMs") {
				t.Errorf("a client is refused after %v with %s", e.after, e.body)
			}
		}
		host.Equal(t, "the long call", host.Payloads((<-long).All())[0], host.TextResult("1", "slept"))
	})
}

// TestDrainAnnounces checks what clients and probes get during DrainDelay. Only clients that the delay is for get that.
func TestDrainAnnounces(t *testing.T) {
	for name, tt := range map[string]struct {
		before func(h *host.Host)
		want   time.Duration
	}{
		"nobody looks":          {func(*host.Host) {}, 0},
		"somebody asks":         {func(h *host.Host) { _ = h.Runtime.Ready() }, 2 * time.Second},
		"a stream is listening": {func(h *host.Host) { host.Listen(h.Session().Get("")) }, 2 * time.Second},
	} {
		t.Run(name, func(t *testing.T) {
			kit.Bubble(t, func(t *testing.T) {
				h := host.New(t, troupe.Options{DrainDelay: 2 * time.Second}, nil)
				c := h.Session()
				tt.before(h)
				synctest.Wait()
				began := time.Now()
				drained := make(chan error, 2)
				for range 2 { // the second one waits for the first one
					go func() { drained <- h.Runtime.Drain(t.Context()) }()
				}
				synctest.Wait()
				if err := h.Runtime.Ready(); err == nil || err.Error() != "draining" {
					t.Errorf("ready: %v", err)
				}
				if tt.want > 0 {
					if a := c.Post(host.Call("1", "echo", `{"text":"x"}`)); a.StatusCode != 200 || !a.Response.Close {
						t.Errorf("meanwhile: %s, connection is to be closed: %t", a.Status, a.Response.Close)
					}
				}
				for range 2 {
					if err := <-drained; err != nil {
						t.Errorf("drain: %v", err)
					}
				}
				if took := time.Since(began); took < tt.want || took > tt.want+300*time.Millisecond {
					t.Errorf("it returns after %v, want %v", took, tt.want)
				}
				if a := c.Post(host.Call("2", "echo", `{"text":"x"}`)); !host.TurnedAway(a) {
					t.Errorf("after the end: %s %s", a.Status, a.Body)
				}
			})
		})
	}
}

// TestDrainGivesUp checks that a drain waits for a call no longer than its context lasts.
func TestDrainGivesUp(t *testing.T) {
	kit.Bubble(t, func(t *testing.T) {
		h := host.New(t, troupe.Options{DrainDelay: -1}, nil)
		a := h.Session().Post(host.Call("1", "sleep", `{"ms":60000}`))
		began, late := time.Now(), errors.New("too late")
		ctx, cancel := context.WithTimeoutCause(t.Context(), 2*time.Second, late)
		defer cancel()
		if err := h.Runtime.Drain(ctx); !errors.Is(err, late) {
			t.Errorf("drain: %v, want %v", err, late)
		}
		if took := time.Since(began); took < 2*time.Second || took > 3500*time.Millisecond {
			t.Errorf("it returns after %v", took)
		}
		if got := host.Payloads(a.All()); len(got) != 1 || !strings.Contains(got[0], "-32010") {
			t.Errorf("the call is answered with %v", got)
		}
	})
}
