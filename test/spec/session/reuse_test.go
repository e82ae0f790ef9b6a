package session_test

import (
	"fmt"
	"net/http"
	"sync"
	"testing"
	"time"

	"github.com/troupe-run/troupe"
	"github.com/troupe-run/troupe/test/spec/host"
)

// TestReusedRequests makes many short calls in close succession, so that the objects of one call serve the next while
// the first response is still on its way out. It is for the race detector; without it, it checks only the responses.
func TestReusedRequests(t *testing.T) {
	t.Parallel()
	h := host.New(t, troupe.Options{Limits: troupe.Limits{Grace: time.Minute}}, nil) // longer than any call, even on a busy machine
	var wg sync.WaitGroup
	for range 8 {
		c := h.Unchecked().Initialize(`{}`)
		for n := range 2 {
			wg.Go(func() {
				for i := range 100 {
					id := fmt.Sprint(n*1000 + i)
					a, err := c.Try(http.MethodPost, host.Call(id, "echo", `{"text":"`+id+`"}`))
					if err != nil {
						t.Error(err)
						return
					}
					if want := host.TextResult(id, id); a.Body != want {
						t.Errorf("the answer is %q, want %q", a.Body, want)
					}
				}
			})
		}
	}
	wg.Wait()
}
