package actors

import (
	"context"
	"encoding/base64"
	"fmt"
	"strings"
	"testing"
	"testing/synctest"

	"github.com/troupe-run/troupe/codec"
	"github.com/troupe-run/troupe/mcp"
)

// mayAgain lets tools ask, and lets a call run again if safe returns true for the name of its
// tool.
type mayAgain struct {
	benchHandler
	safe func(name string) bool
}

func (m mayAgain) Safe(_, name []byte) bool { return m.safe(string(name)) }

// asker makes h's tools ask their clients, and calls f for each.
func (h *held) asker(f func(ctx context.Context, c *Call) ([]byte, *mcp.Error)) {
	h.svc, h.mrtr.keys, h.handler.f = NewService("s", benchHandler{h.handler}, Limits{}), benchKeys{}, f
}

// call posts a stateless call to a node and returns when the call has its response, or waits
// for something other than time.
func (h *held) call(n *Node, svc *Service, more string) *heldConn {
	h.t.Helper()
	c := &heldConn{}
	body := []byte(toolCall("1", more))
	var m codec.Message
	if err := codec.Scan(body, &m, codec.Limits{}); err != nil {
		h.t.Fatal(err)
	}
	go n.Post(svc, &Input{Tenant: "anon", Address: "192.0.2.1", Conn: c, Exchange: c, Stateless: true}, nil, &m, body)
	synctest.Wait()
	return c
}

// answersTo returns the members of a request that is sent again: the state of an asking
// response, and these answers.
func answersTo(asked *heldConn, answers string) string {
	_, body := asked.answer()
	return `,"requestState":` + string(codec.Field(codec.Field([]byte(body), "result"), "requestState")) + `,"inputResponses":` + answers
}

// asks asks a stateless client one question and returns its answer.
func asks(ctx context.Context, c *Call, key string) string {
	got, err := c.Ask(ctx, []Question{{Key: key, Method: "elicitation/create"}})
	if err != nil {
		return err.Error()
	}
	return string(got[0].Result)
}

// isBadState fails unless c was refused for its state.
func isBadState(t *testing.T, what string, c *heldConn) {
	t.Helper()
	if _, body := c.answer(); !strings.Contains(body, "requestState") || strings.Contains(body, `"result"`) {
		t.Errorf("%s: got %q, want a refusal of the state", what, body)
	}
}

// TestStateIsGoodForOneSetOfAnswers checks that a state is good once, with the answers that
// came first: while the call runs on and after it has ended, the same request gets the same
// response, and one with other answers is refused.
func TestStateIsGoodForOneSetOfAnswers(t *testing.T) {
	inBubble(t, Limits{}, NodeLimits{}, func(t *testing.T, h *held) {
		goOn, runs := make(chan struct{}), 0
		h.asker(func(ctx context.Context, c *Call) ([]byte, *mcp.Error) {
			runs++
			answer := asks(ctx, c, "k")
			<-goOn
			return []byte(answer), nil
		})
		asked := h.call(h.Node, h.svc, "")
		same, other := answersTo(asked, `{"k":{"n":1}}`), answersTo(asked, `{"k":{"n":2}}`)
		first, second := h.call(h.Node, h.svc, same), h.call(h.Node, h.svc, same)
		isBadState(t, "other answers while the call runs", h.call(h.Node, h.svc, other))
		close(goOn)
		synctest.Wait()
		const want = `{"jsonrpc":"2.0","id":1,"result":{"n":1}}`
		for i, c := range []*heldConn{first, second, h.call(h.Node, h.svc, same)} {
			if _, body := c.answer(); body != want {
				t.Errorf("request %d with the same answers: got %q, want %s", i+1, body, want)
			}
		}
		isBadState(t, "other answers after the call has ended", h.call(h.Node, h.svc, other))
		if runs != 1 {
			t.Errorf("the handler ran %d times, want once", runs)
		}
	})
}

// TestStateOfAnEarlierRound checks that a round that was answered is over: its request gets the
// next question once more, and does not answer it.
func TestStateOfAnEarlierRound(t *testing.T) {
	inBubble(t, Limits{}, NodeLimits{}, func(t *testing.T, h *held) {
		h.asker(func(ctx context.Context, c *Call) ([]byte, *mcp.Error) {
			return []byte(`[` + asks(ctx, c, "a") + `,` + asks(ctx, c, "b") + `]`), nil
		})
		first := h.call(h.Node, h.svc, "")
		second := h.call(h.Node, h.svc, answersTo(first, `{"a":{}}`))
		_, question := second.answer()
		if _, again := h.call(h.Node, h.svc, answersTo(first, `{"a":{}}`)).answer(); again != question {
			t.Errorf("the answers of the first round once more: got %q, want %q", again, question)
		}
		isBadState(t, "other answers for the first round", h.call(h.Node, h.svc, answersTo(first, `{"a":{"n":1},"b":{}}`)))
		if _, body := h.call(h.Node, h.svc, answersTo(second, `{"b":{"n":2}}`)).answer(); !strings.Contains(body, `"result":[{},{"n":2}]`) {
			t.Errorf("the answers of the second round: got %q", body)
		}
	})
}

// TestAnswerBeforeItsQuestion checks that an answer to a question that the call has not asked
// yet is not kept: its client may not know the question.
func TestAnswerBeforeItsQuestion(t *testing.T) {
	inBubble(t, Limits{}, NodeLimits{}, func(t *testing.T, h *held) {
		h.asker(func(ctx context.Context, c *Call) ([]byte, *mcp.Error) {
			return []byte(`[` + asks(ctx, c, "a") + `,` + asks(ctx, c, "b") + `]`), nil
		})
		c := h.call(h.Node, h.svc, answersTo(h.call(h.Node, h.svc, ""), `{"a":{},"b":{"n":1}}`))
		if _, body := c.answer(); !strings.Contains(body, "input_required") || !strings.Contains(body, `"b":{"method"`) {
			t.Errorf("got %q, want the question b", body)
		}
	})
}

// TestCallThatAnotherNodeGoesOnWith checks that a safe call that is not in memory runs again
// with the answers in the state that its client carries, which a later request does not change.
func TestCallThatAnotherNodeGoesOnWith(t *testing.T) {
	for name, safe := range map[string]bool{"may run again": true, "may not": false} {
		t.Run(name, func(t *testing.T) {
			inBubble(t, Limits{}, NodeLimits{}, func(t *testing.T, h *held) {
				ask := func(ctx context.Context, c *Call) ([]byte, *mcp.Error) {
					return []byte(`[` + asks(ctx, c, "a") + `,` + asks(ctx, c, "b") + `]`), nil
				}
				h.asker(ask)
				first := h.call(h.Node, h.svc, "")
				second := h.call(h.Node, h.svc, answersTo(first, `{"a":{"n":1}}`))

				runs := 0
				run := &heldHandler{f: func(ctx context.Context, c *Call) ([]byte, *mcp.Error) { runs++; return ask(ctx, c) }}
				n, svc, end := h.heir(mayAgain{benchHandler{run}, func(string) bool { return safe }}, Limits{})
				defer end()
				n.mrtr.keys = benchKeys{}
				if safe {
					if _, body := h.call(n, svc, answersTo(second, `{"a":{"n":9},"b":{"n":2}}`)).answer(); !strings.Contains(body, `"result":[{"n":1},{"n":2}]`) {
						t.Errorf("got %q, want the answer of each round", body)
					}
					return
				}
				for round, asked := range []*heldConn{first, second} {
					if _, body := h.call(n, svc, answersTo(asked, `{"a":{},"b":{}}`)).answer(); !strings.Contains(body, fmt.Sprint(mcp.CodeCallLost)) || runs > 0 {
						t.Errorf("round %d: got %q after %d runs, want it lost", round+1, body, runs)
					}
				}
			})
		})
	}
}

// TestStateNamesItsNode: a state names the node and the boot that its call waits on. One of an earlier release, which does not, is as
// good.
func TestStateNamesItsNode(t *testing.T) {
	inBubble(t, Limits{}, NodeLimits{}, func(t *testing.T, h *held) {
		h.asker(func(ctx context.Context, c *Call) ([]byte, *mcp.Error) { return []byte(asks(ctx, c, "a")), nil })
		_, body := h.call(h.Node, h.svc, "").answer()
		text, _ := codec.Str(codec.Field(codec.Field([]byte(body), "result"), "requestState"))
		plain, err := base64.RawURLEncoding.DecodeString(text) // benchKeys do not encrypt
		if err != nil {
			t.Fatal(err)
		}
		of := fmt.Sprintf(`"h":%q,"b":%q,`, h.name, h.boot)
		if !strings.Contains(string(plain), of) {
			t.Fatalf("the state is %s, without %s", plain, of)
		}
		earlier := base64.RawURLEncoding.EncodeToString([]byte(strings.Replace(string(plain), of, "", 1)))
		if _, body := h.call(h.Node, h.svc, `,"requestState":"`+earlier+`","inputResponses":{"a":{"n":1}}`).answer(); !strings.Contains(body, `"result":{"n":1}`) {
			t.Errorf("to a state without a node: %s", body)
		}
	})
}

// A parked call of a stateless client and a pending request to the client of a session are
// counted apart, and no longer once they have their answers.
func TestParkedAndPendingAreCounted(t *testing.T) {
	counts := func(h *held, parked, pending int) {
		h.t.Helper()
		synctest.Wait()
		if s := h.Stats(); s.Parked != parked || s.Pending != pending {
			h.t.Errorf("%d calls are parked and %d requests pending, want %d and %d", s.Parked, s.Pending, parked, pending)
		}
	}
	inBubble(t, Limits{}, NodeLimits{}, func(t *testing.T, h *held) {
		h.asker(func(ctx context.Context, c *Call) ([]byte, *mcp.Error) { return []byte(asks(ctx, c, "k")), nil })
		asked := h.call(h.Node, h.svc, "")
		counts(h, 1, 0)
		h.call(h.Node, h.svc, answersTo(asked, `{"k":{}}`))
		counts(h, 0, 0)
	})
	inBubble(t, Limits{}, NodeLimits{}, func(t *testing.T, h *held) {
		session, question, _ := asksOnce(h)
		counts(h, 0, 1)
		h.post(session, answerTo(question, "x"))
		counts(h, 0, 0)
	})
}
