package nodes_test

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/troupe-run/troupe"
	"github.com/troupe-run/troupe/test/kit"
	"github.com/troupe-run/troupe/test/spec/host"
)

// TestStepsOfANodeThatWakesLate cuts a node off from the store while the handler of a call runs there, until another node has run the call again. Back again, the first
// run stores no step that it was in, and begins none that the other has done.
func TestStepsOfANodeThatWakesLate(t *testing.T) {
	for name, tt := range map[string]struct {
		in    time.Duration // what the second step takes on the node that is cut off
		after time.Duration // what passes there between the first step and the second
		ran   []string
	}{
		"in a step":         {50 * time.Second, 0, []string{"1 at a", "2 at a", "2 at b", "3 at b"}},
		"between two steps": {0, 50 * time.Second, []string{"1 at a", "2 at b", "3 at b"}},
	} {
		t.Run(name, func(t *testing.T) {
			kit.BubbleNATS(t, nil, func(t *testing.T, v *kit.VirtualNATS) {
				var mu sync.Mutex
				var ran []string
				late := make(chan error, 1)
				start := func(node string) *host.Host {
					h := host.New(t, troupe.Options{Store: troupe.StoreOptions{Node: node, NATS: troupe.NATSOptions{URL: v.Line(node).URL()}}}, nil)
					troupe.AddTool(h.Server, troupe.Tool{Name: "scan", Rerun: troupe.Safe}, func(ctx context.Context, call *troupe.Call, _ struct{}) (string, error) {
						out := ""
						for _, step := range []string{"1", "2", "3"} {
							n, err := troupe.Step(ctx, call, step, func(context.Context) (string, error) {
								mu.Lock()
								ran = append(ran, step+" at "+call.Node())
								mu.Unlock()
								if step == "2" && node == "a" {
									time.Sleep(tt.in) // a function that does not heed its context
								}
								return step + node, nil
							})
							if err != nil {
								late <- err
								return "", err
							}
							if out += n; step == "1" && node == "a" {
								time.Sleep(tt.after)
							}
						}
						return out, nil
					})
					return h
				}
				a, b := start("a"), start("b")
				time.Sleep(20 * time.Second)
				c := a.Unchecked().Initialize(`{}`)
				call := c.Post(host.Call("1", "scan", `{}`))
				prime, _ := call.Next()
				time.Sleep(time.Second)
				v.Line("a").Cut()
				time.Sleep(20 * time.Second)
				call.Close()
				got := host.Payloads(b.Moved(c).Get(prime.ID).All())
				if len(got) != 1 || !strings.Contains(fmt.Sprint(got), `"1a2b3b"`) {
					t.Errorf("at the other node the client gets %q", got)
				}
				v.Line("a").Heal()
				if err := <-late; !errors.Is(err, troupe.ErrStreamLost) && !errors.Is(err, troupe.ErrClosing) {
					t.Errorf("the run that was replaced ended with %v", err)
				}
				mu.Lock()
				defer mu.Unlock()
				if diff := cmp.Diff(tt.ran, ran); diff != "" {
					t.Errorf("the steps ran (-want +got):\n%s", diff)
				}
			})
		})
	}
}
