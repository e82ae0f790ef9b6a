package server_test

import (
	"context"
	"fmt"
	"regexp"
	"slices"
	"strconv"
	"strings"
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

var (
	logged  = regexp.MustCompile(`^\{"jsonrpc":"2.0","method":"notifications/message","params":\{"level":"info","logger":"chatter","data":(\d+)\}\}$`)
	dropped = regexp.MustCompile(`^\{"jsonrpc":"2.0","method":"notifications/message","params":\{"level":"warning","logger":"troupe","data":"(\d+) log messages were dropped: there were too many"\}\}$`)
)

// sortLogs returns the numbers that chatter logged, and the number of dropped messages
// in each warning that the client got.
func sortLogs(t *testing.T, messages []string) (got, missed []int) {
	t.Helper()
	for _, m := range messages {
		if n := logged.FindStringSubmatch(m); n != nil {
			k, _ := strconv.Atoi(n[1])
			got = append(got, k)
		} else if n := dropped.FindStringSubmatch(m); n != nil {
			k, _ := strconv.Atoi(n[1])
			missed = append(missed, k)
		} else if !strings.Contains(m, `"result"`) {
			t.Errorf("neither a log message nor an answer: %s", m)
		}
	}
	return got, missed
}

func count(n int) []int {
	all := make([]int, n)
	for i := range all {
		all[i] = i
	}
	return all
}

func TestLogRate(t *testing.T) {
	kit.Bubble(t, func(t *testing.T) {
		h := host.New(t, troupe.Options{Limits: troupe.Limits{LogRate: 10}}, nil)
		c, other := h.Session(), h.Session()
		a := c.Post(host.Call("1", "chatter", `{"to":30}`))
		messages := host.Payloads(a.All())
		got, missed := sortLogs(t, messages)
		if diff := cmp.Diff(count(20), got); diff != "" || !slices.Equal(missed, []int{10}) {
			t.Errorf("of 30 at once, and %v missed (-want +got):\n%s", missed, diff)
		}
		host.Contains(t, "the warning comes before the answer", messages[len(messages)-1], `"id":1,"result"`)
		got, missed = sortLogs(t, host.Payloads(other.Post(host.Call("1", "chatter", `{"to":20}`)).All()))
		if len(got) != 20 || missed != nil {
			t.Errorf("another session: %d of 20, %v missed", len(got), missed)
		}
		if n := h.Gauge("troupe.refusals", "log-rate"); n != 10 {
			t.Errorf("%d messages counted, want 10", n)
		}
		time.Sleep(time.Second)
		got, missed = sortLogs(t, host.Payloads(c.Post(host.Call("1", "chatter", `{"to":10}`)).All()))
		if len(got) != 10 || missed != nil {
			t.Errorf("a second later: %d of 10, %v missed", len(got), missed)
		}

		// The warning about messages dropped in the middle of a call comes when there
		// is room again.
		h.AddTool("pauses", 0, func(ctx context.Context, call *troupe.Call) (string, error) {
			for i := range 40 {
				if i == 30 {
					time.Sleep(3 * time.Second)
				}
				if err := call.Log(ctx, mcp.LevelInfo, "chatter", i); err != nil {
					return "", err
				}
			}
			return "", nil
		})
		time.Sleep(10 * time.Second)
		messages = host.Payloads(c.Post(host.Call("1", "pauses", `{}`)).All())
		if len(messages) != 32 || dropped.FindString(messages[20]) == "" {
			t.Errorf("%d messages, and the 21st is %s", len(messages), messages[20])
		}

		// A client that wants only errors gets no warning.
		time.Sleep(10 * time.Second)
		c.Post(host.Method("1", "logging/setLevel", `{"level":"error"}`))
		h.AddTool("errors", 0, func(ctx context.Context, call *troupe.Call) (string, error) {
			for i := range 30 {
				if err := call.Log(ctx, mcp.LevelError, "chatter", i); err != nil {
					return "", err
				}
			}
			return "", nil
		})
		if messages := host.Payloads(c.Post(host.Call("1", "errors", `{}`)).All()); len(messages) != 21 {
			t.Errorf("%d messages, want 20 errors and the answer", len(messages))
		}

		// Messages below the client's level take nothing from the rate.
		time.Sleep(10 * time.Second)
		host.NotAsked(t, "no level", c.Post(host.Call("1", "chatter", `{"to":100}`)), host.TextResult("1", "done"))
		if messages := host.Payloads(c.Post(host.Call("1", "errors", `{}`)).All()); len(messages) != 21 {
			t.Errorf("%d messages, want 20 errors and the answer", len(messages))
		}
	})
}

// TestLogRateOutsideOfCalls logs outside of calls: the client gets the warning about
// dropped messages though nothing else is logged.
func TestLogRateOutsideOfCalls(t *testing.T) {
	kit.Bubble(t, func(t *testing.T) {
		h := host.New(t, troupe.Options{Limits: troupe.Limits{LogRate: 10}}, nil)
		h.AddTool("peer", 0, func(ctx context.Context, call *troupe.Call) (string, error) {
			for i := range 30 {
				if err := call.Peer().Log(ctx, mcp.LevelInfo, "chatter", i); err != nil {
					return "", err
				}
			}
			return "", nil
		})
		c := h.Session()
		l := host.Listen(c.Get(""))
		defer l.Close()
		c.Post(host.Call("1", "peer", `{}`))
		got, missed := sortLogs(t, l.Since(0))
		if len(got) != 20 || missed != nil {
			t.Errorf("%d messages, %v missed, want 20 and none told yet", len(got), missed)
		}
		time.Sleep(time.Second)
		if got, missed = sortLogs(t, l.Since(20)); len(got) != 0 || !slices.Equal(missed, []int{10}) {
			t.Errorf("%d messages, %v missed, want none more and 10", len(got), missed)
		}
	})
}

func TestLogRateCanBeNone(t *testing.T) {
	kit.Bubble(t, func(t *testing.T) {
		h := host.New(t, troupe.Options{Limits: troupe.Limits{LogRate: -1}}, nil)
		got, missed := sortLogs(t, host.Payloads(h.Session().Post(host.Call("1", "chatter", `{"to":3000}`)).All()))
		if diff := cmp.Diff(count(3000), got); diff != "" || missed != nil {
			t.Errorf("without a limit: %d of 3000, %v missed", len(got), missed)
		}
	})
}

// TestRerunAfterDroppedLogs checks that a call that runs again sends no message twice,
// whatever its earlier run had dropped and whatever level the client has set meanwhile.
func TestRerunAfterDroppedLogs(t *testing.T) {
	when.Long(t, "two crashes")
	for name, o := range map[string]troupe.Options{"another rate": {Limits: troupe.Limits{LogRate: -1}}, "the same rate": {Limits: troupe.Limits{LogRate: 10}}} {
		t.Run(name, func(t *testing.T) {
			kit.Bubble(t, func(t *testing.T) {
				dir := t.TempDir()
				o.Dir = dir
				tools := func(h *host.Host) {
					troupe.AddTool(h.Server, troupe.Tool{Name: "steady", Rerun: troupe.Safe}, func(ctx context.Context, call *troupe.Call, _ struct{}) (string, error) {
						for i := range 60 {
							level := mcp.LevelInfo
							if i%3 == 0 {
								level = mcp.LevelDebug
							}
							if err := call.Log(ctx, level, "chatter", i); err != nil {
								return "", err
							}
							if i == 49 && call.Attempt() == 1 {
								if err := host.Sleep(ctx, 3600000); err != nil {
									return "", err
								}
							}
						}
						return "steady", nil
					})
				}
				h := host.New(t, troupe.Options{Dir: dir, Limits: troupe.Limits{LogRate: 10}}, nil)
				tools(h)
				c := h.Session()
				a := c.Post(host.Call("1", "steady", `{}`))
				prime, _ := a.Next()
				first := host.Listen(a)
				messages := first.Since(0)
				before, _ := sortLogs(t, messages)
				if len(before) != 20 || before[19] != 29 {
					t.Fatalf("before the crash: %v", before)
				}
				c.Post(host.Method("2", "logging/setLevel", `{"level":"debug"}`))
				synctest.Wait()
				h2, c2 := host.Crashed(t, dir, o, c)
				tools(h2)
				a = c2.Get(prime.ID)
				time.Sleep(time.Second)
				debug := strings.NewReplacer(`"level":"debug"`, `"level":"info"`)
				var all []string
				for _, m := range host.Payloads(a.All()) {
					all = append(all, debug.Replace(m))
				}
				got, _ := sortLogs(t, all)
				if !slices.IsSorted(got) || len(slices.Compact(slices.Clone(got))) != len(got) || !slices.Equal(got[:20], before) {
					t.Errorf("after the crash: %v, before it %v", got, before)
				}
				if last := got[len(got)-1]; last != 59 && name == "another rate" {
					t.Errorf("the last message is %d, want 59", last)
				}
			})
		})
	}
}

func TestRedact(t *testing.T) {
	kit.Bubble(t, func(t *testing.T) {
		h := host.New(t, troupe.Options{Redact: func(m *troupe.LogMessage) bool {
			switch data := m.Data.(type) {
			case string:
				m.Data = strings.ReplaceAll(data, "hunter2", "***")
				return data != "drop me"
			case error:
				m.Level, m.Logger, m.Data = mcp.LevelError, m.Server+"/"+m.Logger, map[string]string{"error": "internal"}
			}
			return true
		}}, nil)
		h.AddTool("talk", 0, func(ctx context.Context, call *troupe.Call) (string, error) {
			for _, data := range []any{"the password is hunter2", "drop me", fmt.Errorf("no access to 10.0.0.7"), 5} {
				if err := call.Log(ctx, mcp.LevelInfo, "db", data); err != nil {
					return "", err
				}
				if err := call.Peer().Log(ctx, mcp.LevelInfo, "db", data); err != nil {
					return "", err
				}
			}
			return "talked", nil
		})
		c := h.Session()
		l := host.Listen(c.Get(""))
		defer l.Close()
		message := func(level, logger, data string) string {
			return host.Note("notifications/message", `{"level":"`+level+`","logger":"`+logger+`","data":`+data+`}`)
		}
		want := []string{message("info", "db", `"the password is ***"`), message("error", "main/db", `{"error":"internal"}`), message("info", "db", "5")}
		got := host.Payloads(c.Post(host.Call("1", "talk", `{}`)).All())
		if diff := cmp.Diff(append(slices.Clone(want), host.TextResult("1", "talked")), got); diff != "" {
			t.Errorf("on the call's stream (-want +got):\n%s", diff)
		}
		if diff := cmp.Diff(want, l.Since(0)); diff != "" {
			t.Errorf("on the session's stream (-want +got):\n%s", diff)
		}
	})
}
