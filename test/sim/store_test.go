package sim

import (
	"fmt"
	"testing"
	"testing/synctest"
	"time"
)

// TestRestoredApart takes back what some streams have: of each, all or nothing. What was made since is gone there, and what was removed is back.
func TestRestoredApart(t *testing.T) {
	s := New(time.Hour)
	paths := make([]string, 40)
	for i := range paths {
		paths[i] = fmt.Sprint("p", i)
	}
	open := func(path, rec string) {
		if _, err := s.openStream(path, []byte(rec), nil, time.Hour, false); err != nil {
			t.Fatal(err)
		}
	}
	record := func(key, data string) {
		if _, err := s.create(key, []byte(data), time.Hour); err != nil {
			t.Fatal(err)
		}
	}
	record("removed", "old")
	for _, path := range paths[:20] {
		open(path, "old")
	}
	before := s.Snapshot()
	record("made", "new")
	if err := s.remove("removed", 0); err != nil {
		t.Fatal(err)
	}
	for _, path := range paths {
		s.endStream(path, false)
		open(path, "new")
	}
	after := s.Snapshot()
	for older := range uint8(1 << (1 + Shards)) {
		s.Restore(before.Apart(after, older))
		for i, path := range paths {
			want := "new"
			if older>>(1+shard(path))&1 != 0 {
				if want = "old"; i >= 20 {
					want = ""
				}
			}
			if rec, _, _ := s.writer(path); string(rec) != want {
				t.Errorf("%04b: the writer of %s is %q, want %q", older, path, rec, want)
			}
		}
		for key, back := range map[string]bool{"removed": older&1 != 0, "made": older&1 == 0} {
			if _, _, err := s.get(key); (err == nil) != back {
				t.Errorf("%04b: the record %s: %v", older, key, err)
			}
		}
	}
}

// TestAProcessIsWrongAboutTheClock moves the store's clock, and what a process believes of it.
func TestAProcessIsWrongAboutTheClock(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := New(time.Hour)
		l := NewLink(s, lease, nil)
		l.Ahead(-2 * time.Second)
		s.Jump(time.Hour)
		if off := l.Now().Sub(s.Now()); off != -2*time.Second {
			t.Errorf("the process is %v ahead, want -2s", off)
		}
	})
}
