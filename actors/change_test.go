package actors

import (
	"context"
	"fmt"
	"testing"
	"testing/synctest"
	"time"

	"github.com/troupe-run/troupe/actors/internal/session"
	"github.com/troupe-run/troupe/internal/store"
)

// TestChangeIsSeenAtOnce checks that this node knows a change of the record at once,
// however busy the session's actor is.
func TestChangeIsSeenAtOnce(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		a := newStatelessNode(t, plainHandler{})
		release := a.hold()
		defer release()
		if err := a.s.peer.SetLevel(t.Context(), "error"); err != nil {
			t.Fatal(err)
		}
		if got := a.s.peer.Level(); got != "error" {
			t.Errorf("the level is %q after it was set", got)
		}
	})
}

// TestOlderChangeIsReportedLast checks that the newer record stays, whichever of two
// changes is reported first.
func TestOlderChangeIsReportedLast(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		a := newStatelessNode(t, plainHandler{})
		first := true
		a.store.after = func(op, _ string) error {
			if op == "Update" && first {
				first = false
				return a.s.peer.SetLevel(t.Context(), "error")
			}
			return nil
		}
		if err := (clientSession{a.s.peer}).changeRecord(t.Context(), func(r *session.Record) bool { r.Announced = "x"; return true }); err != nil {
			t.Fatal(err)
		}
		if p := a.s.peer; p.Level() != "error" || p.Announced() != "x" {
			t.Errorf("level %q, told %q", p.Level(), p.Announced())
		}
	})
}

// TestChangeOfASessionThatLeaves has a session leave memory while its record is being
// changed, and come back from the record of before.
func TestChangeOfASessionThatLeaves(t *testing.T) {
	for _, when := range []string{"read", "still being read"} {
		t.Run(when, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				a := newStatelessNode(t, plainHandler{})
				var back *sessionActor
				obtained := make(chan struct{})
				a.store.before = func(op, _ string) error {
					if op == "Update" {
						time.Sleep(a.svc.Limits.SessionDrop + time.Second)
						go func() {
							back, _ = a.n.sessions.loadSession(a.svc, a.s.key, nil)
							close(obtained)
						}()
						synctest.Wait()
					}
					return nil
				}
				a.store.after = func(op, _ string) error {
					if op == "Get" && when == "still being read" {
						time.Sleep(time.Second)
					}
					return nil
				}
				if err := a.s.peer.SetLevel(t.Context(), "error"); err != nil {
					t.Fatal(err)
				}
				<-obtained
				if back == a.s || back.view.Load().rec.Level != "error" {
					t.Errorf("the session has not left, or its level is %q", back.view.Load().rec.Level)
				}
			})
		})
	}
}

// slowReads is a store that takes a second for each read that is not given up.
type slowReads struct{ *memory }

func (s slowReads) Get(ctx context.Context, key string) ([]byte, uint64, error) {
	select {
	case <-time.After(time.Second):
		return s.memory.Get(ctx, key)
	case <-ctx.Done():
		return nil, 0, fmt.Errorf("%w: %w", store.ErrUnavailable, context.Cause(ctx))
	}
}

// TestReadOfASessionIsForAllWhoWait has a session that has left memory be wanted by two at once, and the one that came first give up.
func TestReadOfASessionIsForAllWhoWait(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		n := NewNode(Config{Name: "n", Boot: "b", Store: slowReads{newMemory()}})
		svc := NewService("test", plainHandler{}, Limits{})
		s, err := n.sessions.createSession(t.Context(), svc, &Input{Tenant: "anon"}, Settled{Revision: "2025-11-25"})
		if err != nil {
			t.Fatal(err)
		}
		time.Sleep(svc.Limits.SessionDrop + time.Second)
		if !s.Stopped() {
			t.Fatal("the session is in memory")
		}
		first, giveUp := context.WithCancelCause(t.Context())
		go func() { _, _ = s.peer.Value(first, "x") }()
		synctest.Wait()
		h := &heard{}
		go n.Get(svc, &Input{Tenant: "anon", Session: s.key.ID, Conn: h}, nil)
		synctest.Wait()
		giveUp(ErrSessionEnded)
		time.Sleep(time.Minute)
		if status, live, _ := h.now(); status != 200 || !live {
			t.Errorf("the other one is answered %d, open %v", status, live)
		}
		if err := n.Close(t.Context()); err != nil {
			t.Error(err)
		}
		time.Sleep(time.Minute)
	})
}
