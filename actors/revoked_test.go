package actors

import (
	"testing"
	"testing/synctest"
)

// TestEndHeldWhileASessionEnds has a session end while it is to be asked whose calls it has: who asks learns that, and goes on with the others.
func TestEndHeldWhileASessionEnds(t *testing.T) {
	inBubble(t, Limits{}, NodeLimits{}, func(t *testing.T, h *held) {
		over := h.keepCalls()
		session := h.begin("2025-11-25")
		go h.post(session, message("1", "a"))
		synctest.Wait()
		s := h.peerOf(session).last.Load()
		busy := make(chan struct{})
		go s.runsFor(func(any) bool { <-busy; return false }) // its turn lasts
		synctest.Wait()
		ended := false
		go func() {
			_ = EndHeld(t.Context(), h.Node, func(string) bool { return false }, func(any) bool { return false })
			ended = true
		}()
		synctest.Wait()
		s.Stop() // what it was to be asked is refused
		close(busy)
		close(over)
		synctest.Wait()
		if !ended {
			t.Error("EndHeld waits for a session that has ended")
		}
	})
}
