package actors

import (
	"context"
	"slices"
	"testing"
	"time"

	"github.com/troupe-run/troupe/actors/internal/session"
)

// TestSessionThatBeginsForLong checks that Ended runs once and after Began, whatever becomes of the session
// while Began runs, and that the session stays in memory until Began has returned.
func TestSessionThatBeginsForLong(t *testing.T) {
	for name, tt := range map[string]struct {
		life   session.Lifetime
		begins time.Duration
		after  func(h *held, session string)
		served int // status of a request after Began has returned
		want   []string
	}{
		"it expires meanwhile": {session.Lifetime{Idle: 30 * time.Second}, 5 * time.Minute, func(*held, string) {}, 404,
			[]string{"begins", "has begun", "expired"}},
		"it grows old meanwhile": {session.Lifetime{Idle: time.Hour, Absolute: 2 * time.Hour}, 3 * time.Hour, func(*held, string) {}, 404,
			[]string{"begins", "has begun", "expired"}},
		"it would expire if it left memory": {session.Lifetime{Idle: time.Hour}, 3 * time.Hour, func(h *held, session string) {
			h.Delete(h.svc, h.input(session, "192.0.2.1", &heldConn{}))
		}, 200, []string{"begins", "has begun", "deleted"}},
		"it is deleted later": {session.Lifetime{Idle: time.Hour}, time.Second, func(h *held, session string) {
			leaves(h)
			h.Delete(h.svc, h.input(session, "192.0.2.1", &heldConn{}))
		}, 200, []string{"begins", "has begun", "deleted"}},
	} {
		t.Run(name, func(t *testing.T) {
			inBubble(t, Limits{Session: tt.life}, NodeLimits{}, func(t *testing.T, h *held) {
				said := make(chan string, 10)
				h.svc.Began = func(context.Context, *Peer) {
					said <- "begins"
					time.Sleep(tt.begins)
					said <- "has begun"
				}
				h.svc.Ended = func(_ *Peer, how Ending) {
					said <- map[Ending]string{Deleted: "deleted", Expired: "expired", Disconnected: "disconnected"}[how]
				}
				session := h.begin("2025-11-25")
				if status, body := h.post(session, message("1", "x")).answer(); status != tt.served {
					t.Errorf("after Began a request is answered %d %s, want %d", status, body, tt.served)
				}
				tt.after(h, session)
				time.Sleep(time.Minute)
				var got []string
				for len(said) > 0 {
					got = append(got, <-said)
				}
				if !slices.Equal(got, tt.want) {
					t.Errorf("got %q, want %q", got, tt.want)
				}
			})
		})
	}
}
