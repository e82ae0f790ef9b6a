package auth

import (
	"math/rand/v2"
	"testing"
	"time"
)

// TestKeyring has a row for each answer of a keyring.
func TestKeyring(t *testing.T) {
	t.Parallel()
	start := time.Date(2026, 11, 1, 0, 0, 0, 0, time.UTC)
	at := start.Add
	const s, m, h = time.Second, time.Minute, time.Hour
	good := func(k *keyring) { k.beginFetch(start); k.endFetch(start, noInterval) }
	failing := func(k *keyring) { good(k); k.beginFetch(at(15 * m)); k.failFetch() }
	for _, tt := range []struct {
		name              string
		before            func(*keyring)
		now, came, issued time.Time
		found             bool
		want              answer
		fetch             bool
		retry             time.Duration
	}{
		{"nothing is known", func(*keyring) {}, start, start, start, false, wait, true, 0},
		{"a fetch is under way", func(k *keyring) { k.beginFetch(start) }, at(s), at(s), start, false, wait, false, 0},
		{"the first fetch has failed", func(k *keyring) { k.beginFetch(start); k.failFetch() }, at(s), start, start, false, unreachable, false, 9 * s},
		{"and is made again", func(k *keyring) { k.beginFetch(start); k.failFetch() }, at(10 * s), at(10 * s), start, false, wait, true, 0},
		{"a known key", good, at(s), at(s), start, true, use, false, 0},
		{"a known key, while a fetch is under way", func(k *keyring) { good(k); k.beginFetch(at(m)) }, at(m), at(m), start, true, use, false, 0},
		{"a known key, when a fetch is due", good, at(15 * m), at(15 * m), start, true, use, true, 0},
		{"an unknown key", good, at(10 * s), at(10 * s), at(10 * s), false, wait, true, 0},
		{"an unknown key of a token that waited for the keys", good, at(s), start, at(s), false, unknown, false, 0},
		{"an unknown key of an old token, a moment later", good, at(s), at(s), at(-30 * s), false, unknown, false, 0},
		{"an unknown key of a token that may be newer", good, at(s), at(s), at(-29 * s), false, unreachable, false, 9 * s},
		{"an unknown key of a token without iat", good, at(s), at(s), time.Time{}, false, unreachable, false, 9 * s},
		{"an unknown key while the issuer is down", failing, at(15*m + s), at(15*m + s), start, false, unreachable, false, 9 * s},
		{"a known key while the issuer is down", failing, at(23 * h), at(23 * h), start, true, use, true, 0},
		{"a known key for the last time", failing, at(24*h - 1), at(24*h - 1), start, true, use, true, 0},
		{"a known key after 24 hours", failing, at(24 * h), at(24 * h), start, true, wait, true, 0},
		{"a known key after 24 hours, when that fetch has failed", func(k *keyring) { failing(k); k.beginFetch(at(24 * h)); k.failFetch() }, at(24*h + s), at(24 * h), start, true, unreachable, false, 9 * s},
		{"an unknown key of a file that was read a moment ago", func(k *keyring) { k.ofFile = true; good(k) }, at(s), at(s), at(s), false, wait, true, 0},
		{"and is in it no more than before", func(k *keyring) { k.ofFile = true; good(k) }, at(s), start, at(s), false, unknown, false, 0},
		{"an unknown key while the file cannot be read", func(k *keyring) { k.ofFile = true; failing(k) }, at(15*m + s), at(15*m + s), start, false, unreachable, false, s},
		{"and is tried again", func(k *keyring) { k.ofFile = true; failing(k) }, at(15*m + 2*s), at(15*m + 2*s), start, false, wait, true, 0},
		{"a clock that was set back", good, at(-h), at(-h), start, false, wait, true, 0},
	} {
		var k keyring
		tt.before(&k)
		if a, fetch, retry := k.answerFor(tt.now, tt.came, tt.issued, tt.found); a != tt.want || fetch != tt.fetch || retry != tt.retry {
			t.Errorf("%s: answer %d, fetch %v, retry %v; want %d, %v, %v", tt.name, a, fetch, retry, tt.want, tt.fetch, tt.retry)
		}
	}
}

// TestIntervals says when keys are fetched in the background.
func TestIntervals(t *testing.T) {
	t.Parallel()
	start := time.Date(2026, 11, 1, 0, 0, 0, 0, time.UTC)
	for asked, want := range map[time.Duration]time.Duration{
		noInterval: 15 * time.Minute, 0: 5 * time.Minute, time.Second: 5 * time.Minute, 20 * time.Minute: 20 * time.Minute, 1000 * time.Hour: time.Hour,
	} {
		var k keyring
		k.beginFetch(start)
		if !k.nextFetch().IsZero() {
			t.Error("it is due without a token")
		}
		k.endFetch(start, asked)
		if got := k.nextFetch().Sub(start); got != want || k.isDue(start.Add(want-1)) || !k.isDue(start.Add(want)) {
			t.Errorf("asked for %v: next after %v, want %v", asked, got, want)
		}
		now := start.Add(want)
		for _, backoff := range []time.Duration{10 * time.Second, 20 * time.Second, 40 * time.Second, 80 * time.Second, 160 * time.Second, 5 * time.Minute, 5 * time.Minute} {
			k.beginFetch(now)
			k.failFetch()
			if got := k.nextFetch().Sub(now); got != backoff {
				t.Errorf("after %d failures: next after %v, want %v", k.failures, got, backoff)
			}
			now = k.nextFetch()
		}
	}
}

// TestAdopt takes keys of another process if they are newer, and good.
func TestAdopt(t *testing.T) {
	t.Parallel()
	start := time.Date(2026, 11, 1, 0, 0, 0, 0, time.UTC)
	var k keyring
	if k.adoptKeys(start, start.Add(-lastGood), noInterval) {
		t.Error("keys of yesterday were taken")
	}
	if !k.adoptKeys(start, start.Add(-lastGood+1), noInterval) || !k.isUsable(start) || k.isUsable(start.Add(1)) {
		t.Error("keys of a day ago do not serve for the rest of it")
	}
	if !k.adoptKeys(start, start.Add(time.Hour), noInterval) || k.isUsable(start.Add(lastGood)) {
		t.Error("keys of tomorrow count for more than a day")
	}
	if k.adoptKeys(start, start.Add(-time.Second), noInterval) {
		t.Error("older keys replace newer ones")
	}
}

// TestSpacing runs keyrings through random histories: never are there more than 6 fetches in a minute, nobody waits without a fetch under way, no keys are
// used after a day without news, and none are refused as unknown while the issuer is down.
func TestSpacing(t *testing.T) {
	t.Parallel()
	for seed := range uint64(300) {
		r := rand.New(rand.NewPCG(seed, 1))
		var k keyring
		now := time.Date(2026, 11, 1, 0, 0, 0, 0, time.UTC)
		var began []time.Time
		var last time.Time // when keys came
		down := false
		begin := func() {
			k.beginFetch(now)
			began = append(began, now)
			if n := len(began); n > 6 && began[n-1].Sub(began[n-7]) < time.Minute {
				t.Fatalf("seed %d: 7 fetches within %v", seed, began[n-1].Sub(began[n-7]))
			}
		}
		for range 2000 {
			switch r.IntN(12) {
			case 0:
				now = now.Add(time.Duration(r.Int64N(int64(30 * time.Minute))))
			case 1:
				now = now.Add(time.Duration(r.Int64N(int64(10 * time.Second))))
			case 2:
				now = now.Add(time.Duration(r.Int64N(int64(20 * time.Hour))))
			case 3, 4:
				if !k.fetching {
					break
				}
				if down = r.IntN(2) == 0; down {
					k.failFetch()
				} else {
					k.endFetch(now, time.Duration(r.Int64N(int64(2*time.Hour)))-1)
					last = now
				}
			case 5:
				if k.isDue(now) {
					begin()
				}
			default:
				found := r.IntN(2) == 0
				came := now.Add(-time.Duration(r.Int64N(int64(5 * time.Second))))
				a, fetch, retry := k.answerFor(now, came, came.Add(-time.Duration(r.Int64N(int64(time.Hour)))), found)
				if fetch {
					begin()
				}
				switch old := last.IsZero() || now.Sub(last) >= lastGood; {
				case a == wait && !k.fetching:
					t.Fatalf("seed %d: it waits for nothing", seed)
				case a == use && (old || !found):
					t.Fatalf("seed %d: keys of %v are used at %v", seed, last, now)
				case a != use && found && !old:
					t.Fatalf("seed %d: a known key gets %d", seed, a)
				case a == unknown && (down || old || found):
					t.Fatalf("seed %d: a key is unknown, and nobody could know", seed)
				case a == unreachable && (retry <= 0 || retry > spacing):
					t.Fatalf("seed %d: again after %v", seed, retry)
				}
			}
		}
	}
}

// TestClockFarAhead has keys that another process has fetched in ten years: they serve for 24 hours, and not for as long as the issuer is down.
func TestClockFarAhead(t *testing.T) {
	t.Parallel()
	start := time.Date(2026, 11, 1, 0, 0, 0, 0, time.UTC)
	stamp := start.AddDate(10, 0, 0)
	var k keyring
	for now := start; now.Before(start.Add(lastGood)); now = now.Add(maxBackoff) {
		k.beginFetch(now)
		if adopted := k.adoptKeys(now, stamp, noInterval); adopted != (now == start) {
			t.Fatalf("%v later: adopted is %v", now.Sub(start), adopted)
		}
		k.failFetch()
	}
	if k.isUsable(start.Add(lastGood)) || !k.adoptKeys(start.Add(lastGood), stamp.Add(time.Second), noInterval) {
		t.Error("the keys serve for longer, or newer ones do not")
	}
}
