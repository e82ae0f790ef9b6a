package actors

import (
	"context"
	"errors"
	"testing"
	"testing/synctest"
	"time"

	"github.com/troupe-run/troupe/mcp"
)

// TestDeleteOfASessionThatHasComeBack has a session leave memory while its record is
// being deleted, and come back from the record that is still there. The session must have
// ended when DELETE is answered, for new calls and for running ones. Another DELETE, of
// the session that came back, gets the same response.
func TestDeleteOfASessionThatHasComeBack(t *testing.T) {
	for name, times := range map[string]int{"one": 1, "two": 2} {
		t.Run(name, func(t *testing.T) {
			inBubble(t, Limits{}, NodeLimits{}, func(t *testing.T, h *held) {
				ended := make(chan error, 1)
				h.handler.f = func(ctx context.Context, c *Call) ([]byte, *mcp.Error) {
					if string(c.Message().Method) == "waits" {
						<-ctx.Done()
						ended <- context.Cause(ctx)
					}
					return []byte(`{}`), nil
				}
				session := h.begin("2025-11-25")
				release := h.hold("Delete")
				var deleted []*heldConn
				remove := func() {
					c := &heldConn{}
					deleted = append(deleted, c)
					go h.Delete(h.svc, h.input(session, "192.0.2.1", c))
					synctest.Wait()
				}
				remove()
				leaves(h)
				if status, _ := h.post(session, message("1", "x")).answer(); status != 200 {
					t.Fatalf("before it is deleted a request is answered %d", status)
				}
				go h.post(session, message("2", "waits"))
				synctest.Wait()
				for range times - 1 {
					remove()
				}
				release()
				synctest.Wait()
				for _, c := range deleted {
					if status, body := c.answer(); status != 200 {
						t.Errorf("DELETE is answered %d %s", status, body)
					}
				}
				select {
				case cause := <-ended:
					if cause != ErrSessionEnded {
						t.Errorf("the call ends for %v", cause)
					}
				default:
					t.Error("a call of the session runs on")
				}
				if status, _ := h.post(session, message("3", "x")).answer(); status != 404 {
					t.Errorf("a request is answered %d", status)
				}
			})
		})
	}
}

// TestDeleteDuringATakeover deletes a session while one of its streams is being taken
// over. The stream ends with the session, whichever is done first, even if the session's
// actor has left memory meanwhile.
func TestDeleteDuringATakeover(t *testing.T) {
	for name, idle := range map[string]time.Duration{"at once": 0, "after it has left memory": 3 * time.Minute} {
		t.Run(name, func(t *testing.T) {
			inBubble(t, Limits{}, NodeLimits{}, func(t *testing.T, h *held) {
				session := h.begin("2025-11-25")
				first := &heldConn{}
				go h.Get(h.svc, h.input(session, "192.0.2.1", first), nil)
				synctest.Wait()
				var id string
				h.streams.Each(func(st *streamActor) { id = st.key.ID; streamEnd{st}.unmountStream() }) // as if its node were lost
				synctest.Wait()
				release := h.hold("Rewrite")
				c := h.back(session, id+".0.0")
				time.Sleep(time.Second + idle)
				deleted := &heldConn{}
				h.Delete(h.svc, h.input(session, "192.0.2.1", deleted))
				release()
				time.Sleep(5 * time.Second)
				if status, body := deleted.answer(); status != 200 {
					t.Errorf("DELETE is answered %d %s", status, body)
				}
				if status, _ := c.answer(); status == 0 && !c.over {
					t.Error("a stream of the session is open")
				}
				if n := h.k.Live(KindStream); n != 0 {
					t.Errorf("%d streams are written", n)
				}
			})
		})
	}
}

// TestRequestsBesideDelete has a session deleted while a request of it is served, here or in another process. Each gets
// 404: its client must begin anew.
func TestRequestsBesideDelete(t *testing.T) {
	const note = `{"jsonrpc":"2.0","method":"notifications/x"}`
	waits := func(ctx context.Context, _ *Call) ([]byte, *mcp.Error) {
		<-ctx.Done()
		return nil, &mcp.Error{Code: mcp.CodeInternalError}
	}
	changes := func(ctx context.Context, c *Call) ([]byte, *mcp.Error) {
		if err := c.Peer().SetLevel(ctx, "debug"); errors.Is(err, ErrSessionEnded) {
			return nil, SessionGone
		}
		return []byte(`{}`), nil
	}
	for name, tt := range map[string]struct {
		body      string // "" is a GET
		serve     func(context.Context, *Call) ([]byte, *mcp.Error)
		hold      string // the operation of the store that waits until the session is deleted
		elsewhere bool
	}{
		"a call that runs":               {message("2", "x"), waits, "", false},
		"a change of the record":         {message("2", "x"), changes, "Update", false},
		"a change, deleted elsewhere":    {message("2", "x"), changes, "", true},
		"a batch":                        {"[" + message("2", "x") + "," + message("3", "x") + "]", waits, "", false},
		"a notification":                 {note, nil, "", false},
		"a batch of notifications":       {"[" + note + "," + note + "]", nil, "", false},
		"a standalone stream":            {"", nil, "OpenStream", false},
		"a standalone stream, elsewhere": {"", nil, "", true},
	} {
		t.Run(name, func(t *testing.T) {
			inBubble(t, Limits{}, NodeLimits{}, func(t *testing.T, h *held) {
				h.handler.f = tt.serve
				resume := make(chan struct{})
				session := h.begin("2025-03-26")
				h.post(session, `{"jsonrpc":"2.0","method":"notifications/initialized"}`)
				h.handler.notified = func(*Peer) { <-resume }
				release := func() {}
				if tt.hold != "" {
					release = h.hold(tt.hold)
				}
				deletes := func() {
					if key, _ := sessionKey("anon", "s", session); tt.elsewhere {
						if err := h.mem.Delete(t.Context(), key.recordKey(), 0); err != nil {
							t.Fatal(err)
						}
						return
					}
					c := &heldConn{}
					h.Delete(h.svc, h.input(session, "192.0.2.1", c))
					if status, body := c.answer(); status != 200 {
						t.Errorf("DELETE is answered %d %s", status, body)
					}
				}
				if tt.elsewhere {
					deletes()
				}
				c := &heldConn{}
				go func() {
					if tt.body == "" {
						h.Get(h.svc, h.input(session, "192.0.2.1", c), nil)
					} else {
						h.postOn(c, session, tt.body)
					}
				}()
				synctest.Wait()
				if !tt.elsewhere {
					deletes()
				}
				release()
				close(resume)
				synctest.Wait()
				if status, body := c.answer(); status != 404 || c.open {
					t.Errorf("answered %d %s, a stream: %t; want 404", status, body, c.open)
				}
			})
		})
	}
}
