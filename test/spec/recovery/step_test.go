package recovery_test

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/troupe-run/troupe"
	"github.com/troupe-run/troupe/mcp"
	"github.com/troupe-run/troupe/test/kit"
	"github.com/troupe-run/troupe/test/kit/when"
	"github.com/troupe-run/troupe/test/spec/host"
)

// scanner serves a tool of 15 steps, each of which takes two seconds. It notes which steps each run has begun.
type scanner struct {
	mu   sync.Mutex
	runs map[int][]int // by the number of the run

	tell  bool // each step, and what follows it, logs
	after func(ctx context.Context, call *troupe.Call, step int) error
}

const ticks = 15

func (s *scanner) add(h *host.Host) {
	s.addTo(h.Server)
}

func (s *scanner) addTo(srv *troupe.Server) {
	troupe.AddTool(srv, troupe.Tool{Name: "scan", Rerun: troupe.Safe}, func(ctx context.Context, call *troupe.Call, _ struct{}) (string, error) {
		sum := 0
		for i := 1; i <= ticks; i++ {
			n, err := troupe.Step(ctx, call, fmt.Sprint("tick ", i), func(ctx context.Context) (int, error) {
				s.mu.Lock()
				s.runs[call.Attempt()] = append(s.runs[call.Attempt()], i)
				s.mu.Unlock()
				if s.tell {
					if err := call.Log(ctx, mcp.LevelInfo, "scan", fmt.Sprint("in ", i)); err != nil {
						return 0, err
					}
				}
				return i, host.Sleep(ctx, 2000)
			})
			if err != nil {
				return "", err
			}
			sum += n
			if s.tell {
				if err := call.Log(ctx, mcp.LevelInfo, "scan", fmt.Sprint("after ", i)); err != nil {
					return "", err
				}
			}
			if s.after != nil {
				if err := s.after(ctx, call, i); err != nil {
					return "", err
				}
			}
		}
		return fmt.Sprint("scanned ", sum), nil
	})
}

// of returns the steps that a run has begun.
func (s *scanner) of(run int) []int {
	s.mu.Lock()
	defer s.mu.Unlock()
	return append([]int(nil), s.runs[run]...)
}

// from lists the steps from one on.
func from(step int) (all []int) {
	for i := step; i <= ticks; i++ {
		all = append(all, i)
	}
	return all
}

// TestStepsOfASessionRunOnce has the process of a scan crash in its middle: the second run goes on where the first was, whatever the log has
// forgotten meanwhile, and sends nothing twice and leaves nothing out.
func TestStepsOfASessionRunOnce(t *testing.T) {
	t.Parallel()
	for name, tt := range map[string]struct {
		crash    time.Duration // after the beginning
		goes     int           // the step from which the second run goes on
		revision string
		tell     bool
		after    func(ctx context.Context, call *troupe.Call, step int) error
		long     bool
	}{
		"in the first step":       {crash: time.Second, goes: 1},
		"in the eighth step":      {crash: 15 * time.Second, goes: 8},
		"with messages":           {crash: 15 * time.Second, goes: 8, tell: true},
		"in 2025-03-26":           {crash: 15 * time.Second, goes: 8, tell: true, revision: host.R20250326},
		"after twenty minutes":    {crash: 20*time.Minute + 15*time.Second, goes: 8, tell: true, after: pauseAt(4, 20*time.Minute)},
		"after 1,100 appends":     {crash: 37 * time.Second, goes: 8, after: chatterAt(4, 1100, 1), long: true},
		"after 5 MiB of progress": {crash: 16 * time.Second, goes: 8, after: chatterAt(4, 50, 100<<10), long: true},
	} {
		t.Run(name, func(t *testing.T) {
			if tt.long {
				when.Long(t, "long logs")
			}
			t.Parallel()
			kit.Bubble(t, func(t *testing.T) {
				s := &scanner{runs: make(map[int][]int), tell: tt.tell, after: tt.after}
				dir := t.TempDir()
				h := host.New(t, troupe.Options{Dir: dir}, nil)
				s.add(h)
				c := h.Session()
				if tt.revision != "" {
					c = h.Unchecked().InitializeAs(tt.revision, `{}`)
				}
				began := time.Now()
				a := c.Post(host.CallWith("1", "scan", `{}`, `"p"`))
				var got []string
				last := ""
				go func() {
					for e, ok := a.Next(); ok; e, ok = a.Next() {
						if last = e.ID; e.Data != "" {
							got = append(got, e.Data)
						}
					}
				}()
				time.Sleep(tt.crash - time.Since(began))
				after, m := host.Crashed(t, dir, troupe.Options{}, c)
				synctest.Wait() // until all that was sent is read
				id, seen := last, append([]string(nil), got...)
				a.Close()
				s.add(after)
				rest := host.Payloads(m.Get(id).All())
				if diff := cmp.Diff(from(tt.goes), s.of(2)); diff != "" {
					t.Errorf("the second run did these steps (-want +got):\n%s", diff)
				}
				all := append(seen, rest...)
				host.Equal(t, "the answer", all[len(all)-1], host.TextResult("1", "scanned 120"))
				if !tt.tell {
					return
				}
				var said, want []string
				for _, data := range all[:len(all)-1] {
					_, text, _ := strings.Cut(data, `"data":"`)
					text, _, _ = strings.Cut(text, `"`)
					said = append(said, text)
				}
				for i := range ticks {
					want = append(want, fmt.Sprint("in ", i+1), fmt.Sprint("after ", i+1))
				}
				if diff := cmp.Diff(want, said); diff != "" {
					t.Errorf("the client heard (-want +got):\n%s", diff)
				}
			})
		})
	}
}

// pauseAt waits behind a step.
func pauseAt(step int, d time.Duration) func(context.Context, *troupe.Call, int) error {
	return func(ctx context.Context, call *troupe.Call, at int) error {
		if at != step || call.Attempt() > 1 {
			return nil
		}
		return host.Sleep(ctx, int(d.Milliseconds()))
	}
}

// chatterAt sends progress behind a step.
func chatterAt(step, times, size int) func(context.Context, *troupe.Call, int) error {
	return func(ctx context.Context, call *troupe.Call, at int) error {
		for i := 0; at == step && i < times && call.Attempt() == 1; i++ {
			if err := call.Progress(ctx, float64(i+1), 0, strings.Repeat("x", size)); err != nil {
				return err
			}
			if err := host.Sleep(ctx, 20); err != nil {
				return err
			}
		}
		return nil
	}
}

// TestStepsThatFail checks what a second run finds of steps that failed, were too large, or were named twice.
func TestStepsThatFail(t *testing.T) {
	t.Parallel()
	kit.Bubble(t, func(t *testing.T) {
		var mu sync.Mutex
		runs := make(map[string]int)
		count := func(call *troupe.Call, name string) int {
			mu.Lock()
			defer mu.Unlock()
			key := fmt.Sprint(name, " in run ", call.Attempt())
			runs[key]++
			return runs[key]
		}
		large := strings.Repeat("x", 300<<10)
		add := func(h *host.Host) {
			troupe.AddTool(h.Server, troupe.Tool{Name: "try", Rerun: troupe.Safe}, func(ctx context.Context, call *troupe.Call, _ struct{}) (string, error) {
				_, never := troupe.Step(ctx, call, "permanent", func(context.Context) (int, error) {
					count(call, "permanent")
					return 0, troupe.Permanent(errors.New("never"))
				})
				_, third := troupe.Step(ctx, call, "third", func(context.Context) (int, error) {
					if count(call, "third") < 3 {
						return 0, errors.New("not yet")
					}
					return 0, nil
				})
				_, often := troupe.Step(ctx, call, "often", func(context.Context) (int, error) {
					count(call, "often")
					return 0, errors.New("out of order")
				})
				big, err := troupe.Step(ctx, call, "large", func(context.Context) (string, error) {
					count(call, "large")
					return large, nil
				})
				if err != nil || big != large {
					return "", fmt.Errorf("a large result: %d bytes, %w", len(big), err)
				}
				if _, err := troupe.Step(ctx, call, "bad", func(context.Context) (chan int, error) { return nil, nil }); err == nil || !strings.Contains(err.Error(), `step "bad"`) {
					return "", fmt.Errorf("a result that does not encode: %w", err)
				}
				if _, err := troupe.Step(ctx, call, "third", func(context.Context) (int, error) { count(call, "again"); return 0, nil }); !errors.Is(err, troupe.ErrStepUsed) {
					return "", fmt.Errorf("a name twice: %w", err)
				}
				_, err = troupe.Step(ctx, call, "last", func(context.Context) (int, error) { count(call, "last"); return 7, nil })
				if err == nil && call.Attempt() == 1 {
					err = host.Sleep(ctx, 3600000)
				}
				return fmt.Sprint(never, ", ", third, ", ", often), err
			})
		}
		dir := t.TempDir()
		h := host.New(t, troupe.Options{Dir: dir}, nil)
		add(h)
		c := h.Session()
		a := c.Post(host.Call("1", "try", `{}`))
		prime, _ := a.Next()
		time.Sleep(10 * time.Minute)
		after, m := host.Crashed(t, dir, troupe.Options{}, c)
		add(after)
		a.Close()
		got := host.Payloads(m.Get(prime.ID).All())
		if diff := cmp.Diff([]string{host.TextResult("1", "never, <nil>, out of order")}, got); diff != "" {
			t.Errorf("the client got (-want +got):\n%s", diff)
		}
		mu.Lock()
		defer mu.Unlock()
		want := map[string]int{
			"permanent in run 1": 1, "third in run 1": 3, "often in run 1": 10, "large in run 1": 1, "last in run 1": 1,
			"often in run 2": 10, "large in run 2": 1,
		}
		if diff := cmp.Diff(want, runs); diff != "" {
			t.Errorf("the steps ran (-want +got):\n%s", diff)
		}
	})
}

// TestStepsOfABatch checks that each call of a batch has steps of its own (2025-03-26).
func TestStepsOfABatch(t *testing.T) {
	t.Parallel()
	kit.Bubble(t, func(t *testing.T) {
		var mu sync.Mutex
		var ran []string
		add := func(h *host.Host) {
			troupe.AddTool(h.Server, troupe.Tool{Name: "two", Rerun: troupe.Safe}, func(ctx context.Context, call *troupe.Call, in host.EchoIn) (string, error) {
				if err := call.Log(ctx, mcp.LevelInfo, "two", in.Text); err != nil { // the client comes back with its id
					return "", err
				}
				out := ""
				for _, name := range []string{"one", "two"} {
					s, err := troupe.Step(ctx, call, name, func(context.Context) (string, error) {
						mu.Lock()
						defer mu.Unlock()
						ran = append(ran, fmt.Sprint(in.Text, " ", name, " ", call.Attempt()))
						return in.Text + name, nil
					})
					if err != nil {
						return "", err
					}
					if out += s; call.Attempt() == 1 {
						if err := host.Sleep(ctx, 10000); err != nil {
							return "", err
						}
					}
				}
				return out, nil
			})
		}
		dir := t.TempDir()
		h := host.New(t, troupe.Options{Dir: dir}, nil)
		add(h)
		c := h.Unchecked().InitializeAs(host.R20250326, `{}`)
		a := c.Post(`[` + host.Call("1", "two", `{"text":"a"}`) + `,` + host.Call("2", "two", `{"text":"b"}`) + `]`)
		a.Next()
		logged, _ := a.Next()
		time.Sleep(5 * time.Second)
		after, m := host.Crashed(t, dir, troupe.Options{}, c)
		add(after)
		mu.Lock()
		first := len(ran)
		mu.Unlock()
		a.Close()
		got := host.Payloads(m.Get(logged.ID).All())
		if len(got) != 2 || !strings.Contains(fmt.Sprint(got), "aoneatwo") || !strings.Contains(fmt.Sprint(got), "bonebtwo") {
			t.Errorf("the client got %q", got)
		}
		mu.Lock()
		defer mu.Unlock()
		if first != 2 || len(ran) != 4 || strings.Contains(strings.Join(ran, ","), "one 2") {
			t.Errorf("the steps ran: %q", ran)
		}
	})
}

// TestSilentStepsKeepTheConnection has a call store step after step and send nothing: its client hears comments all the same, as from any silent call.
func TestSilentStepsKeepTheConnection(t *testing.T) {
	t.Parallel()
	kit.Bubble(t, func(t *testing.T) {
		s := &scanner{runs: make(map[int][]int)}
		h := host.New(t, troupe.Options{}, nil)
		s.add(h)
		a := h.Session().Post(host.Call("1", "scan", `{}`))
		got := host.Payloads(a.All())
		host.Equal(t, "the answer", fmt.Sprint(got), "["+host.TextResult("1", "scanned 120")+"]")
		if a.Comments == 0 {
			t.Error("no comment in 30 s")
		}
	})
}
