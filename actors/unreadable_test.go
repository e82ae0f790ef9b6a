package actors

import (
	"context"
	"errors"
	"strings"
	"testing"
	"time"

	"github.com/troupe-run/troupe/codec"
	"github.com/troupe-run/troupe/internal/store"
	"github.com/troupe-run/troupe/mcp"
)

// clearKeys seals nothing; err is the error of opening.
type clearKeys struct{ err error }

func (k *clearKeys) Seal(plain, _ []byte) ([]byte, error) { return plain, nil }
func (k *clearKeys) Open(sealed, _ []byte) ([]byte, error) {
	if k.err != nil {
		return nil, k.err
	}
	return sealed, nil
}

// TestStateThatCannotBeOpenedNow checks that a state that cannot be opened now is not
// refused as bad: the client must send it again, and the parked call goes on.
func TestStateThatCannotBeOpenedNow(t *testing.T) {
	inBubble(t, Limits{}, NodeLimits{}, func(t *testing.T, h *held) {
		keys := &clearKeys{}
		h.mrtr.keys = keys
		h.svc = NewService("s", askingHandler{h.handler}, Limits{})
		h.handler.f = func(ctx context.Context, c *Call) ([]byte, *mcp.Error) {
			as, err := c.Ask(ctx, []Question{{Key: "k", Method: "elicitation/create", Params: []byte(`{}`)}})
			if err != nil {
				return nil, &mcp.Error{Code: mcp.CodeInternalError, Message: err.Error()}
			}
			return as[0].Result, nil
		}
		post := func(rest string) (int, string) {
			c := &faultyConn{}
			in := h.input("", "192.0.2.1", nil)
			in.Stateless, in.Exchange = true, c
			hasReturned(t, h.postTo(c, in, `{"jsonrpc":"2.0","id":1,"method":"tools/call","params":{"name":"x",`+statelessMeta+rest+`}}`))
			return c.answer()
		}
		_, first := post("")
		state := codec.Field(codec.Field([]byte(first), "result"), "requestState")
		again := `,"requestState":` + string(state) + `,"inputResponses":{"k":"here"}`
		keys.err = errors.New("sealed for something else")
		if status, body := post(again); status != 200 || !strings.Contains(body, "-32602") {
			t.Errorf("a bad one: %d %s", status, body)
		}
		keys.err = errors.Join(store.ErrUnavailable, errors.New("no leader"))
		if status, body := post(again); status != 503 || !strings.Contains(body, "try again") {
			t.Errorf("while the keys cannot be read: %d %s", status, body)
		}
		keys.err = nil
		if status, body := post(again); status != 200 || !strings.Contains(body, `"result":"here"`) {
			t.Errorf("once they can: %d %s", status, body)
		}
	})
}

// TestHandlerWithoutAStore checks that a client may send a request again when its
// handler could not serve it because of the store. A proxy sends what is answered with 503 to another node by itself, so that no call
// which may not run twice is: its handler may have done something before.
func TestHandlerWithoutAStore(t *testing.T) {
	inBubble(t, Limits{}, NodeLimits{}, func(t *testing.T, h *held) {
		h.svc = NewService("s", askingHandler{h.handler}, Limits{})
		h.handler.f = func(context.Context, *Call) ([]byte, *mcp.Error) { return nil, Unavailable }
		const hint = `"data":{"retryAfterMs":1000}`
		if status, body := h.post(h.begin("2025-11-25"), message("1", "x")).answer(); status != 200 || !strings.Contains(body, hint) {
			t.Errorf("in a session: %d %s", status, body)
		}
		c := &faultyConn{}
		in := h.input("", "192.0.2.1", nil)
		in.Stateless, in.Exchange = true, c
		hasReturned(t, h.postTo(c, in, `{"jsonrpc":"2.0","id":1,"method":"tools/call","params":{"name":"x",`+statelessMeta+`}}`))
		if status, body := c.answer(); status != 200 || !strings.Contains(body, hint) {
			t.Errorf("by itself: %d %s", status, body)
		}
		h.svc = NewService("s", safeAsking{askingHandler{h.handler}}, Limits{})
		c = &faultyConn{}
		in = h.input("", "192.0.2.1", nil)
		in.Stateless, in.Exchange = true, c
		hasReturned(t, h.postTo(c, in, `{"jsonrpc":"2.0","id":1,"method":"tools/call","params":{"name":"x",`+statelessMeta+`}}`))
		if status, body := c.answer(); status != 503 || !strings.Contains(body, hint) {
			t.Errorf("by itself, of what may run again: %d %s", status, body)
		}
	})
}

// safeAsking is an askingHandler whose calls may run again.
type safeAsking struct{ askingHandler }

func (safeAsking) Safe(_, _ []byte) bool { return true }

// TestAnswerToACallThatCannotBeRead checks that an answer whose call cannot be looked
// up is not dropped: the client must send it again.
func TestAnswerToACallThatCannotBeRead(t *testing.T) {
	for name, tt := range map[string]struct {
		err  error
		want int
	}{
		"the store is away":   {store.ErrUnavailable, 503},
		"the record is newer": {errors.New("a record of another version"), 503},
		"there is none":       {store.ErrNotFound, 202},
	} {
		t.Run(name, func(t *testing.T) {
			inBubble(t, Limits{}, NodeLimits{}, func(t *testing.T, h *held) {
				session := h.begin("2025-11-25")
				h.mem.before = func(op, _ string) error {
					if op == "Writer" {
						return tt.err
					}
					return nil
				}
				c := h.post(session, answerTo(`"n.a.1-`+strings.Repeat("a", 26)+`"`, "x"))
				if status, body := c.answer(); status != tt.want {
					t.Errorf("%d %s, want %d", status, body, tt.want)
				}
				time.Sleep(time.Second)
			})
		})
	}
}

func (*clearKeys) Tag([]byte) []byte { return nil }
