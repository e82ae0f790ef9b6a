package session

import (
	"errors"
	"slices"
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
		if r.RewriteDue(now, life) {
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

// TestWhenActivityIsWritten checks that activity lengthens a session's life to within a
// quarter of its idle time, and causes no write at its absolute end.
func TestWhenActivityIsWritten(t *testing.T) {
	t.Parallel()
	begin := time.Date(2026, 1, 1, 0, 0, 0, 0, time.UTC)
	for name, row := range map[string]struct {
		written, now time.Duration // since the session was created
		due          bool
	}{
		"at once":                         {0, 0, false},
		"after a quarter":                 {0, life.Idle / 4, false},
		"after more":                      {0, life.Idle/4 + 1, true},
		"at its last moment":              {0, life.Idle - 1, true},
		"later":                           {life.Absolute / 2, life.Absolute/2 + life.Idle/4 + 1, true},
		"when the absolute end is near":   {life.Absolute - life.Idle - 1, life.Absolute - life.Idle/2, true},
		"when it lives until that anyway": {life.Absolute - life.Idle, life.Absolute - 1, false},
		"when it was written near that":   {life.Absolute - life.Idle/2, life.Absolute - 1, false},
	} {
		r := New(begin, life)
		r = r.Touched(begin.Add(row.written), life)
		if got := r.RewriteDue(begin.Add(row.now), life); got != row.due {
			t.Errorf("%s: due %t, want %t", name, got, row.due)
		}
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

// TestAFreshSessionExpires checks how long a session lasts whose client sends nothing after initialize, and how long
// once it does.
func TestAFreshSessionExpires(t *testing.T) {
	t.Parallel()
	begin := time.Date(2026, 1, 1, 0, 0, 0, 0, time.UTC)
	at := func(d time.Duration) time.Time { return begin.Add(d) }
	for _, fresh := range []time.Duration{0, life.Idle, 2 * life.Idle} {
		if r := New(begin, Lifetime{Idle: life.Idle, Absolute: life.Absolute, Fresh: fresh}); r.Fresh || r.Expired(at(life.Idle-1)) || r.NoteHeard() {
			t.Errorf("with %v for fresh ones it expires at %v", fresh, r.Expires)
		}
	}
	l := Lifetime{Idle: life.Idle, Absolute: life.Absolute, Fresh: 10 * time.Minute}
	r := New(begin, l)
	if r.Expired(at(l.Fresh-1)) || !r.Expired(at(l.Fresh)) || r.RewriteDue(at(l.Fresh/4), l) || !r.RewriteDue(at(l.Fresh/4+1), l) {
		t.Errorf("a fresh session expires at %v", r.Expires)
	}
	if r = r.Touched(at(time.Minute), l); !r.Fresh || !r.Expires.Equal(at(l.Fresh+time.Minute)) {
		t.Errorf("a fresh session that is stored again expires at %v", r.Expires)
	}
	if first, again := r.NoteHeard(), r.NoteHeard(); !first || again {
		t.Errorf("what a client sends is its first: %t, and what it sends then: %t", first, again)
	}
	if r = r.Touched(at(2*time.Minute), l); !r.Expires.Equal(at(l.Idle + 2*time.Minute)) {
		t.Errorf("a session that is used expires at %v", r.Expires)
	}
}

func TestSubscribed(t *testing.T) {
	r := New(time.Now(), life)
	for _, step := range []struct {
		uri     string
		changed bool
		want    []string
	}{
		{"c", true, []string{"c"}}, {"a", true, []string{"a", "c"}}, {"b", true, []string{"a", "b", "c"}},
		{"a", false, []string{"a", "b", "c"}}, {"c", false, []string{"a", "b", "c"}},
	} {
		r.Subscribed = slices.Grow(r.Subscribed, 8) // to have room for changes in place
		before := r
		kept := slices.Clone(before.Subscribed)
		if changed := r.Subscribe(step.uri); changed != step.changed {
			t.Errorf("subscribe %s: changed %t", step.uri, changed)
		}
		if diff := cmp.Diff(step.want, r.Subscribed); diff != "" {
			t.Errorf("subscribe %s: %s", step.uri, diff)
		}
		if diff := cmp.Diff(kept, before.Subscribed); diff != "" {
			t.Errorf("subscribe %s changed a copy: %s", step.uri, diff)
		}
	}
	for _, step := range []struct {
		uri     string
		changed bool
		want    []string
	}{{"x", false, []string{"a", "b", "c"}}, {"a", true, []string{"b", "c"}}, {"a", false, []string{"b", "c"}}, {"c", true, []string{"b"}}} {
		r.Subscribed = slices.Grow(r.Subscribed, 8) // to have room for changes in place
		before := r
		kept := slices.Clone(before.Subscribed)
		if changed := r.Unsubscribe(step.uri); changed != step.changed {
			t.Errorf("unsubscribe %s: changed %t", step.uri, changed)
		}
		if diff := cmp.Diff(step.want, r.Subscribed); diff != "" {
			t.Errorf("unsubscribe %s: %s", step.uri, diff)
		}
		if diff := cmp.Diff(kept, before.Subscribed); diff != "" {
			t.Errorf("unsubscribe %s changed a copy: %s", step.uri, diff)
		}
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

// TestNewer checks that the error of a record of a newer release says so, however its
// members have changed.
func TestNewer(t *testing.T) {
	for data, want := range map[string]int{
		`{"v":2,"revision":{"a":1},"subscribed":"x","created":7}`: 2,
		`{"v":1,"revision":"2025-11-25"}`:                         0,
		`{"revision":"2025-11-25"}`:                               0,
		`garbage`:                                                 0,
	} {
		if got := NewerVersion([]byte(data)); got != want {
			t.Errorf("%s: got %d, want %d", data, got, want)
		}
	}
}
