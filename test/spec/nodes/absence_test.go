package nodes_test

import (
	"cmp"
	"context"
	"strings"
	"testing"
	"time"

	"github.com/troupe-run/troupe"
	"github.com/troupe-run/troupe/test/kit"
	"github.com/troupe-run/troupe/test/kit/when"
	"github.com/troupe-run/troupe/test/spec/host"
)

// payer starts a node with a tool that may not run again: it sends progress, waits for its client if it is told to, and then says that it has paid.
func payer(t *testing.T, v *kit.VirtualNATS, name string) *host.Host {
	o := troupe.Options{Limits: troupe.Limits{MaxAsk: time.Hour, MaxCall: 3 * time.Hour}, Store: troupe.StoreOptions{Node: name, Lease: 5 * time.Second, ReplayAge: time.Minute, NATS: troupe.NATSOptions{URL: v.Line(name).URL()}}}
	h := host.New(t, o, nil)
	troupe.AddTool(h.Server, troupe.Tool{Name: "pay"}, func(ctx context.Context, call *troupe.Call, in struct {
		Ask   bool `json:"ask,omitempty"`
		Takes int  `json:"takes,omitempty"` // seconds
	}) (string, error) {
		_ = call.Progress(ctx, 1, 2, "")
		if in.Ask {
			if _, err := call.Elicit(ctx, "Pay?", host.Form); err != nil {
				return "", err
			}
		}
		return "paid", host.Sleep(ctx, 1000*in.Takes)
	})
	return h
}

// pay begins a call, and returns the id of its first event.
func pay(t *testing.T, c *kit.Client, arguments string) (*kit.Answer, string) {
	t.Helper()
	call := c.Post(host.CallWith("1", "pay", arguments, `"p"`))
	for {
		e, ok := call.Next()
		if !ok {
			t.Fatal("the call ends before it sends progress")
		}
		if strings.Contains(e.Data, "progress") {
			return call, e.ID
		}
	}
}

// yes is the answer to a question.
func yes(q host.Asked) string {
	return `{"jsonrpc":"2.0","id":` + string(q.ID) + `,"result":{"action":"accept","content":{"answer":"yes"}}}`
}

// patient is all that a client of a call gets that comes back with the id of the last event, to one node after the other, until it has the response.
func patient(c *kit.Client, call *kit.Answer, id string, hosts ...*host.Host) (all string) {
	for i := 0; ; i++ {
		if !call.Stream() {
			all += call.Status + " " + call.Body + "\n"
		} else {
			for _, e := range call.All() {
				id = cmp.Or(e.ID, id)
				all += e.Data + "\n"
			}
		}
		if i == 300 || strings.Contains(all, `"id":1`) {
			return all
		}
		<-time.After(5 * time.Second)
		call = hosts[i%len(hosts)].Moved(c).Get(id)
	}
}

// whole is all that an answer says until it ends.
func whole(a *kit.Answer) string {
	if !a.Stream() {
		return a.Status + " " + a.Body
	}
	return strings.Join(host.Payloads(a.All()), "\n")
}

// TestARestartOfTheStoreEndsNoCall has the store away from two nodes for longer than their leases. Clients of calls at the first one come back to the
// second one meanwhile, where they are held. The second node is back first, and sees no entry of the first: it takes nothing over.
func TestARestartOfTheStoreEndsNoCall(t *testing.T) {
	when.Unraced(t, "virtual time that is long under the race detector")
	for _, away := range []time.Duration{3500 * time.Millisecond, 8 * time.Second, time.Minute} { // between, others' entries expire and the own lease does not
		t.Run(away.String(), func(t *testing.T) {
			kit.BubbleNATS(t, nil, func(t *testing.T, v *kit.VirtualNATS) {
				a, b := payer(t, v, "a"), payer(t, v, "b")
				time.Sleep(20 * time.Second)
				const n = 5
				var clients []*kit.Client
				var ids []string
				for range n {
					c := a.Unchecked().Initialize(`{"elicitation":{"form":{}}}`)
					call, id := pay(t, c, `{"takes":90}`)
					call.Close()
					clients, ids = append(clients, c), append(ids, id)
				}
				v.Line("a").Break()
				v.Line("b").Break()
				got := make(chan string, n)
				for i, c := range clients {
					go func() {
						time.Sleep(away / 2)
						got <- whole(b.Moved(c).Get(ids[i]))
					}()
				}
				time.Sleep(away)
				v.Line("b").Heal()
				time.Sleep(1500 * time.Millisecond)
				v.Line("a").Heal()
				for range n {
					if s := <-got; !strings.Contains(s, `"paid"`) || strings.Contains(s, "-32010") {
						t.Errorf("a client gets %q", s)
					}
				}
			})
		})
	}
}

// TestCutOffForLongerThanRecordsLive cuts one node off for a little less and a little more than writer records live, while the other one goes on and
// nobody comes to it: nothing is taken over, and the call goes on when its node is back.
func TestCutOffForLongerThanRecordsLive(t *testing.T) {
	when.Unraced(t, "virtual time that is long under the race detector")
	for _, away := range []time.Duration{70 * time.Second, 90 * time.Second, 5 * time.Minute} {
		t.Run(away.String(), func(t *testing.T) {
			kit.BubbleNATS(t, nil, func(t *testing.T, v *kit.VirtualNATS) {
				a, b := payer(t, v, "a"), payer(t, v, "b")
				c := a.Unchecked().Initialize(`{}`)
				call, id := pay(t, c, `{"takes":400}`)
				time.Sleep(3 * time.Second)
				v.Line("a").Cut()
				time.Sleep(away)
				v.Line("a").Heal()
				all := patient(c, call, id, a, b)
				if !strings.Contains(all, `"paid"`) || strings.Contains(all, "-32011") {
					t.Errorf("the client gets %s", all)
				}
			})
		})
	}
}

// TestTakenOverAndForgotten cuts one node off. The other one takes the stream of a call over, tells its client that the outcome is unknown, and ends; its
// record expires. When the first one is back it does not go on as if nothing had been: whoever asks gets the same end.
func TestTakenOverAndForgotten(t *testing.T) {
	kit.BubbleNATS(t, nil, func(t *testing.T, v *kit.VirtualNATS) {
		a, b := payer(t, v, "a"), payer(t, v, "b")
		c := a.Unchecked().Initialize(`{}`)
		call, id := pay(t, c, `{"takes":300}`)
		time.Sleep(10 * time.Second)
		v.Line("a").Cut()
		call.Close()
		if got := whole(b.Moved(c).Get(id)); !strings.Contains(got, "-32010") {
			t.Fatalf("the other node says %q", got)
		}
		ctx, cancel := context.WithTimeout(context.Background(), 10*time.Second)
		_ = b.Runtime.Close(ctx)
		cancel()
		time.Sleep(2 * time.Minute)
		v.Line("a").Heal()
		time.Sleep(10 * time.Second)
		if got := whole(a.Moved(c).Get(id)); !strings.Contains(got, "-32010") || strings.Contains(got, "paid") {
			t.Errorf("its own node says later %q", got)
		}
	})
}

// TestAnswerAfterALongOutage has the store away from both nodes for longer than records live. An answer that comes to the other node before the one
// that asks is back is not taken, and so not lost.
func TestAnswerAfterALongOutage(t *testing.T) {
	when.Unraced(t, "virtual time that is long under the race detector")
	kit.BubbleNATS(t, nil, func(t *testing.T, v *kit.VirtualNATS) {
		a, b := payer(t, v, "a"), payer(t, v, "b")
		c := a.Unchecked().Initialize(`{"elicitation":{"form":{}}}`)
		call, _ := pay(t, c, `{"ask":true}`)
		q := host.NextQuestion(t, call)
		got := make(chan string, 1)
		go func() { got <- patient(c, call, q.Event, a) }()
		time.Sleep(3 * time.Second)
		v.Line("a").Break()
		v.Line("b").Break()
		time.Sleep(15 * time.Minute)
		v.Line("b").Heal()
		answered := func() int { return b.Moved(c).Post(yes(q)).StatusCode }
		for range 20 {
			if status := answered(); status == 202 {
				t.Fatal("an answer was taken that its question cannot get")
			}
			time.Sleep(250 * time.Millisecond)
		}
		v.Line("a").Heal()
		for range 60 {
			if answered() == 202 {
				break
			}
			time.Sleep(time.Second)
		}
		select {
		case s := <-got:
			if !strings.Contains(s, `"paid"`) {
				t.Errorf("the client gets %q", s)
			}
		case <-time.After(time.Minute):
			t.Error("the call still waits for its answer")
			call.Close()
			<-got
		}
	})
}

// TestAnswersToNobody has a client answer questions of nodes that never were. A node that has just begun cannot tell that, and says so; then it takes them, and
// nobody learns anything by it.
func TestAnswersToNobody(t *testing.T) {
	kit.BubbleNATS(t, nil, func(t *testing.T, v *kit.VirtualNATS) {
		c := payer(t, v, "a").Unchecked().Initialize(`{"elicitation":{"form":{}}}`)
		for _, want := range []int{503, 202} {
			for _, id := range []string{`"nobody.abcdefgh.1"`, `"nobody.abcdefgh.1-abcdefghijklmnopqrstuvwxyz"`} {
				if a := c.Post(yes(host.Asked{ID: []byte(id)})); a.StatusCode != want {
					t.Errorf("an answer to %s: %s %s, want %d", id, a.Status, a.Body, want)
				}
			}
			time.Sleep(10 * time.Second)
		}
	})
}
