package nodes_test

import (
	"context"
	"encoding/json"
	"os"
	"os/exec"
	"reflect"
	"strings"
	"testing"
	"time"

	"github.com/troupe-run/troupe"
	"github.com/troupe-run/troupe/codec"
	"github.com/troupe-run/troupe/mcp"
	"github.com/troupe-run/troupe/test/kit"
	"github.com/troupe-run/troupe/test/spec/host"
)

// asksTwice adds a tool that asks its client two questions in a row.
func asksTwice(h *host.Host, name string, again troupe.Rerun) {
	troupe.AddTool(h.Server, troupe.Tool{Name: name, Needs: mcp.CapClientElicitationForm, Rerun: again}, func(ctx context.Context, call *troupe.Call, _ struct{}) (string, error) {
		for range 2 {
			if _, err := call.Elicit(ctx, "Who?", host.Form); err != nil {
				return "", err
			}
		}
		return "both answered", nil
	})
}

// answersTwice calls such a tool at one node, answers each of its questions at another, and returns how long that took.
func answersTwice(t *testing.T, c *kit.Client, tool string, all []*host.Host) time.Duration {
	t.Helper()
	began := time.Now()
	a := by(all[1], c).Post(host.Call("1", tool, `{}`))
	for _, at := range []int{2, 0} {
		host.Reply(by(all[at], c), host.NextQuestion(t, a).ID, "result", `{"action":"accept","content":{"answer":"me"}}`)
	}
	host.Contains(t, tool, host.Last(t, a), "both answered")
	return time.Since(began)
}

// TestTwoQuestionsWaitForNothing has a session answer two questions in a row at other nodes than that of the call. All that takes time is
// the way to the NATS server: no timer is waited for, and the messages that must come before the next number is fixed.
func TestTwoQuestionsWaitForNothing(t *testing.T) {
	nodes(t, 3, nil, func(t *testing.T, v *kit.VirtualNATS, all ...*host.Host) {
		for _, h := range all {
			asksTwice(h, "once", troupe.Never)
			asksTwice(h, "again", troupe.Safe)
		}
		for _, tt := range []struct {
			tool  string
			trips int // there and back, of each message that the next one waits for
		}{{"once", 12}, {"again", 15}} {
			for range 2 { // The second time all nodes know the session.
				c := all[0].Session()
				if took := answersTwice(t, c, tt.tool, all); took != 0 {
					t.Errorf("%s: two questions took %v", tt.tool, took)
				}
				const way = time.Millisecond
				for _, h := range all {
					v.Line(h.Runtime.Node()).Slow(way)
				}
				if took := answersTwice(t, c, tt.tool, all); took > time.Duration(2*tt.trips)*way {
					t.Errorf("%s: two questions waited for %d messages to the NATS server and back, want %d at most", tt.tool, took/way/2, tt.trips)
				}
				for _, h := range all {
					v.Line(h.Runtime.Node()).Slow(0)
				}
				<-time.After(time.Second) // what is still on a slow line would hold up what comes after it
			}
		}
	})
}

// alone says that the process runs one test, so that no other has used a type before.
const alone = "TROUPE_TEST_ALONE"

// TestTwoQuestionsCompileNothing has a new fleet ask two questions, and looks at which structures were encoded or decoded for the
// first time meanwhile: to compile one takes longer than all the messages.
func TestTwoQuestionsCompileNothing(t *testing.T) {
	if os.Getenv(alone) == "" {
		c := exec.CommandContext(t.Context(), os.Args[0], "-test.run", "^"+t.Name()+"$", "-test.timeout", "0")
		c.Env = append(os.Environ(), alone+"=1")
		if out, err := c.CombinedOutput(); err != nil {
			t.Errorf("%v\n%s", err, out)
		}
		return
	}
	nodes(t, 3, nil, func(t *testing.T, _ *kit.VirtualNATS, all ...*host.Host) {
		for _, h := range all {
			asksTwice(h, "again", troupe.Safe)
		}
		known := make(map[reflect.Type]bool)
		for _, x := range codec.Known() {
			known[x] = true
		}
		if len(known) == 0 {
			t.Fatal("no type is known")
		}
		answersTwice(t, all[0].Unchecked().Initialize(`{"elicitation":{"form":{}}}`), "again", all)
		client := host.Stateless{T: t, Client: all[1].Unchecked(), Capabilities: host.EveryCapability}
		a, id := client.Tool("again", `{}`)
		for i, at := range []int{2, 0} {
			client.Client = all[at].Unchecked()
			key := []string{"elicit", "elicit-2"}[i]
			a, id = client.Tool("again", `{}`, client.Parked(a, id, key), host.Given(key, "me"))
		}
		host.Contains(t, "a stateless call", client.Done(a, id), "both answered")
		var late []string
		for _, x := range codec.Known() {
			of := x
			if x.Kind() == reflect.Pointer {
				of = x.Elem()
			}
			if of.Kind() == reflect.Struct && !known[x] && !x.Implements(reflect.TypeFor[json.Marshaler]()) {
				late = append(late, x.String())
			}
		}
		if late != nil {
			t.Errorf("compiled while the calls ran: %s", strings.Join(late, ", "))
		}
	})
}
