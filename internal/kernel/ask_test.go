package kernel

import (
	"context"
	"errors"
	"sync"
	"testing"
	"time"

	"github.com/asynkron/protoactor-go/actor"
)

func TestAsk(t *testing.T) {
	k := New(Config{Kinds: []string{"some", "other"}})
	c := start(k, func(m any) {
		if a, ok := m.(*Asked); ok && a.Message != "silent" {
			a.Answer(a.Message.(string) + "!")
			a.Answer("a second answer is dropped")
		}
	})
	var wg sync.WaitGroup
	for range 20 {
		wg.Go(func() {
			for range 100 {
				if r, err := Ask[string](t.Context(), k, c.pid, "x"); r != "x!" || err != nil {
					t.Errorf("got %q, %v", r, err)
				}
			}
		})
	}
	wg.Wait()
	cause := errors.New("enough")
	ctx, cancel := context.WithTimeoutCause(t.Context(), time.Millisecond, cause)
	defer cancel()
	if _, err := Ask[string](ctx, k, c.pid, "silent"); !errors.Is(err, cause) {
		t.Errorf("without an answer: %v, want the cause", err)
	}
	if _, err := Ask[int](t.Context(), k, c.pid, "x"); err == nil {
		t.Error("an answer of another type was accepted")
	}
	c.Stop()
	if _, err := Ask[string](t.Context(), k, c.pid, "x"); !errors.Is(err, ErrUnreachable) && !errors.Is(err, ErrStopped) {
		t.Errorf("a stopped actor: %v", err)
	}
	if _, err := Ask[string](t.Context(), k, actor.NewPID(k.sys.Address(), "nobody"), "x"); !errors.Is(err, ErrUnreachable) {
		t.Errorf("nobody: %v", err)
	}
}

func BenchmarkAsk(b *testing.B) {
	k := New(Config{Kinds: []string{"some", "other"}})
	c := start(k, func(m any) { m.(*Asked).Answer(struct{}{}) })
	b.ReportAllocs()
	for b.Loop() {
		_, _ = Ask[struct{}](b.Context(), k, c.pid, struct{}{})
	}
}
