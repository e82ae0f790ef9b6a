package session

import (
	"errors"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
)

var life = Lifetime{Idle: 72 * time.Hour, Absolute: 30 * 24 * time.Hour}

func TestAnActiveSessionLivesUntilItsAbsoluteEnd(t *testing.T) {
	now := time.Date(2026, 1, 1, 0, 0, 0, 0, time.UTC)
	r := New(now, life)
	end, writes := now.Add(life.Absolute), 0
	for ; now.Before(end); now = now.Add(time.Hour) {
		if r.Expired(now) {
			t.Fatalf("expired at %v although it was active", now)
		}
		if r.Due(now, life) {
			r = r.Touched(now, life)
			writes++
		}
	}
	if !r.Expired(end) {
		t.Error("it outlived its absolute lifetime")
	}
	if writes > 40 {
		t.Errorf("%d rewrites in 30 days, want at most one per 18 hours", writes)
	}
}

func TestAnIdleSessionExpires(t *testing.T) {
	now := time.Date(2026, 1, 1, 0, 0, 0, 0, time.UTC)
	r := New(now, life)
	if r.Expired(now.Add(life.Idle - 1)) {
		t.Error("expired too early")
	}
	if !r.Expired(now.Add(life.Idle)) {
		t.Error("not expired")
	}
}

func TestSubscribed(t *testing.T) {
	r := New(time.Now(), life)
	before := r
	for _, u := range []string{"c", "a", "b", "a"} {
		if got, want := r.Subscribe(u), u != "a" || len(r.Subscribed) < 3; !got && want {
			t.Errorf("subscribe %s changed nothing", u)
		}
	}
	if diff := cmp.Diff([]string{"a", "b", "c"}, r.Subscribed); diff != "" {
		t.Error(diff)
	}
	if r.Unsubscribe("x") || !r.Unsubscribe("b") {
		t.Error("unsubscribe")
	}
	if len(before.Subscribed) != 0 {
		t.Error("a copy of the record changed with it")
	}
}

func TestCalls(t *testing.T) {
	var c Calls[int]
	for i, step := range []struct {
		id   string
		want error
	}{{"1", nil}, {`"1"`, nil}, {"1", ErrDuplicate}, {"3", ErrTooMany}} {
		if err := c.Begin(step.id, i, 2); !errors.Is(err, step.want) {
			t.Errorf("begin %s: %v, want %v", step.id, err, step.want)
		}
	}
	c.End("1")
	if _, ok := c.Find("1"); ok || c.Len() != 1 {
		t.Error("an ended call is still there")
	}
	if err := c.Begin("1", 9, 2); err != nil {
		t.Errorf("an id used again after its end: %v", err)
	}
}

// A record of a newer release is told as newer, however its members have changed.
func TestNewer(t *testing.T) {
	for data, want := range map[string]int{
		`{"v":2,"revision":{"a":1},"subscribed":"x","created":7}`: 2,
		`{"v":1,"revision":"2025-11-25"}`:                         0,
		`{"revision":"2025-11-25"}`:                               0,
		`garbage`:                                                 0,
	} {
		if got := Newer([]byte(data)); got != want {
			t.Errorf("%s: got %d, want %d", data, got, want)
		}
	}
}
