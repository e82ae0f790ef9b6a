package actors

import (
	"context"
	"strings"
	"testing"

	"github.com/troupe-run/troupe/mcp"
)

// answeredFirst is a client whose requests are answered just before they ask or send anything.
type answeredFirst struct {
	client
	to Detached
}

func (a answeredFirst) askClient(ctx context.Context, c *Call, qs []Question) ([]Answer, error) {
	c.Detach([]byte(`,"result":{}}`), a.to)
	return a.client.askClient(ctx, c, qs)
}

// beside has what a call asks and sends once its request has been answered.
type beside struct{ asked, told []string }

func (b *beside) Ask(_ context.Context, qs []Question) ([]Answer, error) {
	b.asked = append(b.asked, qs[0].Key)
	return []Answer{{Result: []byte(`{"action":"accept"}`)}}, nil
}

func (b *beside) Tell(_ context.Context, method string, _ []byte) error {
	b.told = append(b.told, method)
	return nil
}

func (*beside) FindStep(context.Context, string) (*Step, error) { return nil, nil }
func (*beside) KeepStep(context.Context, Step) error            { return nil }

// TestAQuestionJustAfterDetach asks when the request is just being answered: the question goes where the call has its questions from then on.
func TestAQuestionJustAfterDetach(t *testing.T) {
	inBubble(t, Limits{}, NodeLimits{}, func(t *testing.T, h *held) {
		to, got := &beside{}, ""
		h.asker(func(ctx context.Context, c *Call) ([]byte, *mcp.Error) {
			c.client = answeredFirst{c.client, to}
			got = asks(ctx, c, "k")
			return []byte(`{}`), nil
		})
		h.call(h.Node, h.svc, "")
		if got != `{"action":"accept"}` || len(to.asked) != 1 {
			t.Errorf("the handler got %q, and %q were asked", got, to.asked)
		}
	})
}

// pacedFirst has a request answered just before something is sent.
type pacedFirst struct {
	pacer
	c  *Call
	to Detached
}

func (p pacedFirst) lockSending(ctx context.Context) error {
	p.c.Detach([]byte(`,"result":{}}`), p.to)
	return p.pacer.lockSending(ctx)
}

// TestALargeNotificationJustAfterDetach is the same for a notification that is so large that the handler waits for it.
func TestALargeNotificationJustAfterDetach(t *testing.T) {
	inBubble(t, Limits{}, NodeLimits{}, func(t *testing.T, h *held) {
		to, got := &beside{}, error(nil)
		h.asker(func(ctx context.Context, c *Call) ([]byte, *mcp.Error) {
			c.pace = pacedFirst{c.pace, c, to}
			got = c.Notify(ctx, "x/y", []byte(`{"x":"`+strings.Repeat("x", c.peer.svc.Limits.Queue)+`"}`))
			return []byte(`{}`), nil
		})
		h.call(h.Node, h.svc, "")
		if got != nil || len(to.told) != 1 {
			t.Errorf("the handler got %v, and %q were told", got, to.told)
		}
	})
}

// noted notes in which order a request is answered and leaves the table.
type noted struct {
	delivery
	table
	order *[]string
}

func (n noted) answerRequest(a response) {
	*n.order = append(*n.order, "answered")
	n.delivery.answerRequest(a)
}

func (n noted) parkRequest(r *requestActor, id string) {
	*n.order = append(*n.order, id+" is free")
	n.table.parkRequest(r, id)
}

// TestIDIsFreeOnceItIsAnswered answers requests whose calls go on: the client may use their ids again as soon as it has the answers.
func TestIDIsFreeOnceItIsAnswered(t *testing.T) {
	for name, answer := range map[string]func(ctx context.Context, c *Call){
		"a task":     func(_ context.Context, c *Call) { c.Detach([]byte(`,"result":{}}`), &beside{}) },
		"a question": func(ctx context.Context, c *Call) { asks(ctx, c, "k") },
	} {
		t.Run(name, func(t *testing.T) {
			inBubble(t, Limits{}, NodeLimits{}, func(t *testing.T, h *held) {
				var order []string
				h.asker(func(ctx context.Context, c *Call) ([]byte, *mcp.Error) {
					n := noted{c.r.way.delivery, c.r.way.table, &order}
					c.r.way.delivery, c.r.way.table = n, n
					answer(ctx, c)
					return []byte(`{}`), nil
				})
				if h.call(h.Node, h.svc, ""); len(order) != 2 || order[0] != "1 is free" || order[1] != "answered" {
					t.Errorf("%q", order)
				}
			})
		})
	}
}
