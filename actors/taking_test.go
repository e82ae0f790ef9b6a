package actors

import (
	"context"
	"errors"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/troupe-run/troupe/actors/internal/stream"
	"github.com/troupe-run/troupe/codec"
	"github.com/troupe-run/troupe/internal/quota"
	"github.com/troupe-run/troupe/mcp"
)

// safeHandler is a heldHandler whose calls may run again, so that answers are stored.
type safeHandler struct{ *heldHandler }

func (safeHandler) Safe(_, _ []byte) bool { return true }

// asksOnce runs a safe call that asks once. It returns the id of the question, and a
// channel with what the handler gets.
func asksOnce(h *held) (session, question string, got chan string) {
	h.svc = NewService("s", safeHandler{h.handler}, Limits{})
	got = make(chan string, 1)
	h.handler.f = func(ctx context.Context, c *Call) ([]byte, *mcp.Error) {
		as, err := c.Ask(ctx, []Question{{Key: "k", Method: "elicitation/create", Params: []byte(`{}`)}})
		if err != nil {
			return nil, &mcp.Error{Code: mcp.CodeInternalError, Message: err.Error()}
		}
		got <- string(as[0].Result)
		return []byte(`{}`), nil
	}
	session = h.begin("2025-11-25")
	c := &heldConn{}
	go h.postOn(c, session, message("1", "x"))
	time.Sleep(time.Second)
	return session, string(codec.Field([]byte(c.events()[0]), "id")), got
}

// within returns the next value of got within a minute, "nothing" if there is none.
func within(got <-chan string) string {
	select {
	case a := <-got:
		return a
	case <-time.After(time.Minute):
		return "nothing"
	}
}

func answerTo(question, with string) string {
	return `{"jsonrpc":"2.0","id":` + question + `,"result":{"a":"` + with + `"}}`
}

// TestTwoAnswersAtOnce sends two answers to one question while the log is busy. One of
// them is stored, and the handler gets that one. The other one gets an error that no
// question is open only when that is so.
func TestTwoAnswersAtOnce(t *testing.T) {
	inBubble(t, Limits{}, NodeLimits{}, func(t *testing.T, h *held) {
		session, question, got := asksOnce(h)
		release := h.hold("Append")
		h.streams.Each(func(st *streamActor) { // an event of the call is on its way
			_ = st.Post(&pushEntries{entries: []stream.Entry{{Kind: stream.End, Data: []byte("x")}}})
		})
		one, two := &heldConn{}, &heldConn{}
		go h.postOn(one, session, answerTo(question, "one"))
		synctest.Wait()
		go h.postOn(two, session, answerTo(question, "two"))
		synctest.Wait()
		for _, c := range []*heldConn{one, two} {
			if status, _ := c.answer(); status != 0 {
				t.Errorf("answered %d before the log has an answer", status)
			}
		}
		release()
		synctest.Wait()
		for _, c := range []*heldConn{one, two} {
			if status, body := c.answer(); status != 202 {
				t.Errorf("answered %d %s", status, body)
			}
		}
		if a := within(got); !strings.Contains(a, "one") {
			t.Errorf("the handler got %s", a)
		}
		if log := h.mem.logged(); !strings.Contains(log, `"one"`) || strings.Contains(log, `"two"`) {
			t.Errorf("the log has %q", log)
		}
	})
}

// TestAnswerThatIsStoredLate checks that the handler gets an answer that takes longer
// to be stored than its client waits, because the log has it; another answer sent
// meanwhile is dropped.
func TestAnswerThatIsStoredLate(t *testing.T) {
	inBubble(t, Limits{}, NodeLimits{}, func(t *testing.T, h *held) {
		session, question, got := asksOnce(h)
		release := h.hold("Append")
		for _, with := range []string{"one", "two"} {
			begin := time.Now()
			status, body := h.post(session, answerTo(question, with)).answer()
			if d := time.Since(begin); status != 503 || d > 5*time.Second {
				t.Errorf("%s: %d %s after %v", with, status, body, d)
			}
		}
		release()
		if a := within(got); !strings.Contains(a, "one") {
			t.Errorf("the handler got %s", a)
		}
		if status, _ := h.post(session, answerTo(question, "three")).answer(); status != 202 {
			t.Errorf("one that comes too late is answered %d", status)
		}
		if log := h.mem.logged(); !strings.Contains(log, `"one"`) || strings.Contains(log, `"two"`) {
			t.Errorf("the log has %q", log)
		}
	})
}

// TestAnswerThatCannotBeStored checks that another answer is taken after one that could
// not be stored, even one that waited for the outcome of the first; later reports of
// the first change nothing.
func TestAnswerThatCannotBeStored(t *testing.T) {
	n := &Node{}
	n.pending.open = make(map[string]*pendingRequest)
	x := &pendingRequest{id: `"q"`, from: &quota.Account{}, ch: make(chan Answer, 1)}
	n.pending.enterQuestion(x)
	first, mine := n.pending.claimRecording(x, Answer{Result: []byte("1")})
	if !mine {
		t.Fatal("the first answer is not taken")
	}
	if other, mine := n.pending.claimRecording(x, Answer{Result: []byte("2")}); mine || other != first {
		t.Fatal("a second one is taken beside it")
	}
	lost := errors.New("lost")
	n.pending.settleRecording(x, first, lost)
	if <-first.over; first.err != lost {
		t.Errorf("its fate is %v", first.err)
	}
	second, mine := n.pending.claimRecording(x, Answer{Result: []byte("2")})
	if !mine {
		t.Fatal("the second answer is not taken")
	}
	n.pending.settleRecording(x, first, nil)
	n.pending.settleRecording(x, second, nil)
	n.pending.settleRecording(x, second, nil)
	if a := <-x.ch; string(a.Result) != "2" || len(x.ch) > 0 {
		t.Errorf("the handler gets %s", a.Result)
	}
	if again, _ := n.pending.claimRecording(x, Answer{}); again != nil {
		t.Error("a third answer is taken")
	}
}

// TestAnswerToACallThatEnds checks that an answer is accepted, and dropped, that comes when the stream of its call has stopped and
// the call has not withdrawn the question yet.
func TestAnswerToACallThatEnds(t *testing.T) {
	inBubble(t, Limits{}, NodeLimits{}, func(t *testing.T, h *held) {
		session, question, _ := asksOnce(h)
		x, journal, ok := h.pending.findQuestion(SessionKey{"anon", h.svc.ID, session}, question)
		if !ok || journal == nil {
			t.Fatalf("question %s is not open, or need not be stored", question)
		}
		journal.Actor.Stop()
		answered := make(chan int, 1)
		go func() {
			status, _ := h.post(session, answerTo(question, "late")).answer()
			answered <- status
		}()
		synctest.Wait()
		if len(answered) > 0 {
			t.Fatalf("it was answered with %d while the question was open", <-answered)
		}
		h.pending.closeQuestion(x)
		if status := <-answered; status != 202 {
			t.Errorf("it was answered with %d, want 202", status)
		}
	})
}
