package transports_test

import (
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/troupe-run/troupe"
	"github.com/troupe-run/troupe/test/kit"
	"github.com/troupe-run/troupe/test/spec/host"
)

// TestResumedStreamIsPrimed checks that clients that know only the event ids of their
// newest connection can resume from one on which nothing has happened.
func TestResumedStreamIsPrimed(t *testing.T) {
	kit.Bubble(t, func(t *testing.T) {
		h := host.New(t, troupe.Options{}, nil)
		c := h.Session()
		own := c.Get("")
		opened, _ := own.Next()
		asked := c.Post(host.Call("1", "ask", `{"question":"who?"}`))
		begun, _ := asked.Next()
		question, _ := asked.Next()
		for i, last := range []kit.Event{opened, question} {
			retry := []string{"8000", "4000"}[i] // of a standalone stream, and of a call's
			for range 3 {
				rest := c.Get(last.ID)
				time.AfterFunc(time.Minute, rest.Close)
				begin := time.Now()
				got, _ := rest.Next()
				if d := time.Since(begin); d > time.Second { // in a bubble nothing takes time but what waits
					t.Errorf("the stream named its place after %v, want it at once: the node may end in the next moment", d)
				}
				if diff := cmp.Diff(kit.Event{ID: last.ID, Retry: retry}, got); diff != "" {
					t.Errorf("first event of a resumed stream (-want +got):\n%s", diff)
				}
				rest.Close()
			}
		}
		// A replayed event has an id of its own.
		rest := c.Get(begun.ID)
		question.Retry = "4000" // each connection says once when to come back
		if got, _ := rest.Next(); got != question {
			t.Errorf("the stream goes on with %+v, want %+v", got, question)
		}
		c.Post(host.AnswerTo(question.Data, `{"action":"decline"}`))
		if diff := cmp.Diff([]string{host.TextResult("1", "decline ")}, host.Payloads(rest.All())); diff != "" {
			t.Errorf("(-want +got):\n%s", diff)
		}
		own.Close()
		asked.Close()
	})
}
