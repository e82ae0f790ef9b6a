package worker_test

import (
	"context"
	"encoding/json"
	"errors"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/troupe-run/troupe/internal/task"
	"github.com/troupe-run/troupe/internal/worker"
	"github.com/troupe-run/troupe/test/kit/when"
)

// TestLook finds a task of any tenant, and tells of its runs and steps, of any size and as the first release stored them.
func TestLook(t *testing.T) {
	when.Unraced(t, "virtual time that is long under the race detector")
	t.Parallel()
	bubble(t, 4, func(t *testing.T, h *house) {
		h.handle(func(ctx context.Context, a *worker.Attempt) worker.Result {
			for _, name := range []string{"small", "large"} {
				s, err := a.Find(ctx, name)
				if err != nil { // the test has ended
					return done(`{}`)
				}
				if s != nil {
					continue
				}
				began := time.Now()
				time.Sleep(2 * time.Second)
				value := json.RawMessage(`1`)
				if name == "large" {
					value = json.RawMessage(`"` + strings.Repeat("x", 2<<20) + `"`)
				}
				if err := a.Keep(ctx, worker.Step{Name: name, Value: value}, began); err != nil {
					return done(`{}`)
				}
			}
			if _, err := a.Ask(ctx, []worker.Question{{Key: "q", Request: json.RawMessage(`{"method":"elicitation/create","params":{}}`)}}); err != nil {
				return worker.Result{Value: []byte(`{}`)}
			}
			return done(`{}`)
		})
		key, err := h.createFor("somebody", "")
		if err != nil {
			t.Fatal(err)
		}
		if found, err := h.Find(t.Context(), key.ID); err != nil || found != key {
			t.Errorf("found %v, %v; want %v", found, err, key)
		}
		for _, id := range []string{"", "x", "a.b", "*", strings.Repeat("a", 26)} {
			if _, err := h.Find(t.Context(), id); !errors.Is(err, worker.ErrUnknown) {
				t.Errorf("task %q: %v", id, err)
			}
		}
		time.Sleep(time.Minute)
		synctest.Wait()
		r := h.get(key)
		if len(r.Runs) != 1 || r.Runs[0].End != task.RunAsked || r.Runs[0].Over-r.Runs[0].Began < 4000 || r.Runs[0].Node != "n" {
			t.Errorf("the runs are %+v", r.Runs)
		}
		// The first release had the value before the rest.
		old := []byte(`{"name":"old","value":"` + strings.Repeat("y", 1<<20) + `","attempt":3,"began":1,"took":5}`)
		s, err := h.Get(t.Context(), key)
		if err != nil {
			t.Fatal(err)
		}
		if err := h.Store.PutPart(t.Context(), key.Tenant+"."+key.Server+"."+key.ID, "s-old", old, s.Rev, ttl); err != nil {
			t.Fatal(err)
		}
		first := []byte(`{"value":1,"name":"first","attempt":3,"began":2,"took":5}`)
		if err := h.Store.PutPart(t.Context(), key.Tenant+"."+key.Server+"."+key.ID, "s-first", first, s.Rev, ttl); err != nil {
			t.Fatal(err)
		}
		steps, all, err := h.Steps(t.Context(), key, 100)
		if err != nil || all != 4 || len(steps) != 4 {
			t.Fatalf("%d steps of %d, %v", len(steps), all, err)
		}
		if x := steps[0]; x.Name != "old" || x.Attempt != 3 || x.Took != 5 || x.Size != len(old) || x.Value != nil {
			t.Errorf("the old step is %+v", x)
		}
		if x := steps[1]; x.Name != "first" || x.Attempt != 3 || x.Took != 5 || x.Size != len(first) || x.Value != nil {
			t.Errorf("the first step is %+v", x)
		}
		if x := steps[2]; x.Name != "small" || x.Attempt != 1 || x.Took != 2000 {
			t.Errorf("the small step is %+v", x)
		}
		if x := steps[3]; x.Name != "large" || x.Took != 2000 || x.Size < 2<<20 || x.Value != nil {
			t.Errorf("the large step is %s, %d ms, %d bytes", x.Name, x.Took, x.Size)
		}
		if steps, all, err := h.Steps(t.Context(), key, 2); err != nil || all != 4 || len(steps) != 2 {
			t.Errorf("two steps: %d of %d, %v", len(steps), all, err)
		}
		other, err := h.createFor("anon", "192.0.2.1")
		if err != nil {
			t.Fatal(err)
		}
		time.Sleep(time.Minute) // a task that changes while pages are read may come twice
		synctest.Wait()
		listed, next, err := h.All(t.Context(), 0, 1)
		if err != nil || len(listed) != 1 || listed[0].Key != key || next == 0 {
			t.Fatalf("the first page is %v, %d, %v", listed, next, err)
		}
		if listed, next, err = h.All(t.Context(), next, 1); err != nil || len(listed) != 1 || listed[0].Key != other || next != 0 || listed[0].Record.From != "192.0.2.1" {
			t.Errorf("the second page is %v, %d, %v", listed, next, err)
		}
	})
}
