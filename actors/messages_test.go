package actors

import (
	"context"
	"fmt"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/troupe-run/troupe/mcp"
)

// TestBeginningsAreBounded has a client begin sessions and delete them at once: each costs a tenth of one that stays, and
// comes back within the hour.
func TestBeginningsAreBounded(t *testing.T) {
	inBubble(t, Limits{}, NodeLimits{Principal: PrincipalLimits{Sessions: 3}}, func(t *testing.T, h *held) {
		writes := 0
		h.mem.before = func(op, _ string) error {
			if op == "Create" || op == "Delete" {
				writes++
			}
			return nil
		}
		pairs := func() (n int) {
			for ; n < 1000; n++ {
				c := h.post("", initializeAs("2025-11-25"))
				if status, body := c.answer(); status == 429 && strings.Contains(body, "too many new sessions") {
					return n
				}
				h.Delete(h.svc, h.input(c.name, "192.0.2.1", &heldConn{}))
			}
			return n
		}
		if n := pairs(); n != 21 || writes != 2*n { // the last one needs 10 of 10 tokens
			t.Errorf("%d sessions are begun and deleted with %d writes, want 21 with 42", n, writes)
		}
		time.Sleep(2 * time.Minute)
		if n := pairs(); n != 1 {
			t.Errorf("%d more after 2 minutes, want 1", n)
		}
		if c := (&heldConn{}); true {
			h.postFrom(c, "192.0.2.2", "", initializeAs("2025-11-25"))
			if status, _ := c.answer(); status != 200 {
				t.Errorf("another client: %d", status)
			}
		}
		time.Sleep(time.Hour)
		if n := pairs(); n != 21 {
			t.Errorf("%d an hour later, want 21", n)
		}
	})
}

// TestMessagesCost: what is no call takes tokens of its own, a tenth of a call's, and for its bytes and values as much as
// a call.
func TestMessagesCost(t *testing.T) {
	const note = `{"jsonrpc":"2.0","method":"notifications/x"}`
	large := `{"jsonrpc":"2.0","method":"notifications/x","params":{"pad":"` + strings.Repeat("x", bytesPerToken) + `"}}`
	many := `{"jsonrpc":"2.0","method":"notifications/x","params":{"pad":[` + strings.Repeat("1,", valuesPerToken) + `1]}}`
	for name, row := range map[string]struct {
		body string
		cost int
		id   string // of the refusal
	}{
		"a notification":                   {note, 1, ""},
		"a large one":                      {large, 11, ""},
		"one with many values":             {many, 11, ""},
		"an answer that nobody awaits":     {`{"jsonrpc":"2.0","id":7,"result":{}}`, 1, ""},
		"an error":                         {`{"jsonrpc":"2.0","id":7,"error":{"code":1,"message":""}}`, 1, ""},
		"initialize":                       {initializeAs("2025-03-26"), 1, "0"},
		"a batch of them":                  {"[" + note + "," + note + "]", 2, ""},
		"a batch with a request":           {"[" + strings.Repeat(note+",", 11) + message("1", "x") + "]", 11, "1"},
		"a ping before there is a session": {`{"jsonrpc":"2.0","id":1,"method":"ping","params":{"pad":"` + strings.Repeat("x", bytesPerToken) + `"}}`, 10, "1"},
	} {
		t.Run(name, func(t *testing.T) {
			inBubble(t, Limits{}, NodeLimits{Principal: PrincipalLimits{Rate: 1, Burst: 4}}, func(t *testing.T, h *held) {
				h.handler.f = func(context.Context, *Call) ([]byte, *mcp.Error) { return []byte("{}"), nil }
				session := h.begin("2025-03-26") // costs 1 of 40
				h.post(session, note)            // another one
				time.Sleep(time.Hour)
				if row.id == "0" || strings.Contains(row.body, `"ping"`) {
					session = ""
				}
				passed, refused := 0, ""
				for passed < 100 {
					status, body := h.post(session, row.body).answer()
					if strings.Contains(body, "too many calls per second from this client") {
						if refused = body; status != 429 && !strings.HasPrefix(row.body, "[") {
							t.Errorf("refused with %d", status)
						}
						break
					}
					passed++
				}
				if want := 40 / row.cost; passed != want {
					t.Errorf("%d passed, want %d", passed, want)
				}
				if row.id != "" && !strings.Contains(refused, `"id":`+row.id) {
					t.Errorf("refused with %s", refused)
				}
				time.Sleep(time.Hour)
				if status, body := h.post(session, row.body).answer(); status != 200 && status != 202 {
					t.Errorf("later: %d %s", status, body)
				}
			})
		})
	}
}

// TestDeletesCost: a DELETE is charged before the store is read.
func TestDeletesCost(t *testing.T) {
	inBubble(t, Limits{}, NodeLimits{Principal: PrincipalLimits{Rate: 1, Burst: 1}}, func(t *testing.T, h *held) {
		reads := 0
		h.mem.before = func(op, _ string) error {
			if op == "Get" {
				reads++
			}
			return nil
		}
		codes := make(map[int]int)
		for range 15 {
			c := &heldConn{}
			h.Delete(h.svc, h.input(newID(), "192.0.2.1", c))
			status, _ := c.answer()
			codes[status]++
		}
		if codes[404] != 10 || codes[429] != 5 || reads != 10 {
			t.Errorf("answered %v with %d reads, want 10 times 404 and 5 times 429", codes, reads)
		}
	})
}

// TestMessagesOfBoundSessionsCost: those of HTTP+SSE do, and those of a client that has the process for itself do not.
func TestMessagesOfBoundSessionsCost(t *testing.T) {
	const note = `{"jsonrpc":"2.0","method":"notifications/x"}`
	inBubble(t, Limits{}, NodeLimits{Principal: PrincipalLimits{Rate: 1, Burst: 1}}, func(t *testing.T, h *held) {
		l := h.connect("192.0.2.1", "2024-11-05") // costs 2 of 10
		for _, row := range []struct {
			body         string
			alone        bool
			passed, want int
		}{
			{note, false, 8, 429},
			{"[" + note + "," + note + "]", false, 5, 429},
			{`{"jsonrpc":"2.0","id":7,"result":{}}`, false, 10, 429},
			{`{"jsonrpc":"2.0","id":7,"method":"ping"}`, false, 99, 202},
			{`[{"jsonrpc":"2.0","id":7,"method":"ping","params":{"x":"` + strings.Repeat("x", bytesPerToken) + `"}}]`, false, 1, 429},
			{`{"jsonrpc":"2.0","id":7,"method":"ping","params":{"x":"` + strings.Repeat("x", bytesPerToken) + `"}}`, false, 1, 429},
			{note, true, 99, 202},
		} {
			s, _ := h.bound.findBound(h.svc, h.input(l.name, "", l))
			s.sess.patient = row.alone
			passed, status := 0, 0
			for passed < 99 {
				if status, _ = h.post(l.name, row.body).answer(); status == 429 {
					break
				}
				passed++
			}
			if passed != row.passed || status != row.want {
				t.Errorf("%.60s: %d passed, then %d; want %d, then %d", row.body, passed, status, row.passed, row.want)
			}
			time.Sleep(time.Hour)
		}
		l.Cut()
	})
}

// TestARefusedAnswerIsNotLost: the answer to a question of a client that has spent its tokens is refused with 429, and
// taken when it comes again.
func TestARefusedAnswerIsNotLost(t *testing.T) {
	inBubble(t, Limits{}, NodeLimits{Principal: PrincipalLimits{Rate: 1, Burst: 1}}, func(t *testing.T, h *held) {
		got := make(chan string, 1)
		h.handler.f = func(ctx context.Context, c *Call) ([]byte, *mcp.Error) {
			a, err := c.Ask(ctx, []Question{{Method: "elicitation/create"}})
			got <- fmt.Sprintf("%s %v", a[0].Result, err)
			return []byte("{}"), nil
		}
		session := h.begin("2025-11-25")
		c := &heldConn{}
		go h.postOn(c, session, message("1", "x"))
		synctest.Wait()
		_, id, _ := strings.Cut(c.events()[0], `"id":"`)
		id, _, _ = strings.Cut(id, `"`)
		answer := `{"jsonrpc":"2.0","id":"` + id + `","result":{"action":"cancel"}}`
		for range 20 {
			h.post(session, `{"jsonrpc":"2.0","method":"notifications/x"}`)
		}
		if status, body := h.post(session, answer).answer(); status != 429 || !strings.Contains(body, "retryAfterMs") {
			t.Errorf("without tokens: %d %s", status, body)
		}
		synctest.Wait()
		if len(got) > 0 {
			t.Error("a refused answer was taken")
		}
		time.Sleep(100 * time.Millisecond)
		if status, body := h.post(session, answer).answer(); status != 202 {
			t.Errorf("sent again: %d %s", status, body)
		}
		synctest.Wait()
		if len(got) == 0 || <-got != `{"action":"cancel"} <nil>` {
			t.Error("the handler does not have its answer")
		}
		c.Cut()
	})
}

// TestARefusedInitializeCostsNoSession: who has spent the tokens for messages still has those for sessions.
func TestARefusedInitializeCostsNoSession(t *testing.T) {
	inBubble(t, Limits{}, NodeLimits{Principal: PrincipalLimits{Rate: 1, Burst: 1, Sessions: 20}}, func(t *testing.T, h *held) {
		began := 0
		for range 15 {
			if h.begin("2025-11-25") != "" {
				began++
			}
		}
		left := h.accounts.Of("anon", "192.0.2.1").Buckets[rateOfSessions]
		if began != 10 || left.TakeN(time.Now(), 10*perSession) != 0 {
			t.Errorf("%d sessions of 20 have begun, and the rest cannot", began)
		}
	})
}
