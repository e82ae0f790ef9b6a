package auth

import "time"

// The times of a keyring.
const (
	minInterval = 5 * time.Minute // between two fetches in the background, whatever the issuer asks for
	maxInterval = time.Hour
	interval    = 15 * time.Minute // if the issuer asks for nothing
	spacing     = 10 * time.Second // between the beginnings of any two fetches
	fileSpacing = 2 * time.Second  // that of a file which cannot be used; a good one is read for each token with an unknown key
	maxBackoff  = 5 * time.Minute  // between fetches that fail
	lastGood    = 24 * time.Hour   // for which keys serve after the last fetch that did not fail
)

// keyring decides when an issuer's keys are fetched, and which answer a token gets meanwhile.
//
//	       token, no keys                 fetched
//	empty ───────────────▶ fetching ──────────────────▶ good ──┐ token with a known key: use
//	  ▲                     │    ▲                       │  ▲  │
//	  │ failed, no keys     │    └───────────────────────┘  └──┘
//	  └─────────────────────┘      its time has come, or an unknown key, once in 10 s but for a file
//	  ▲                                                  │
//	  └──────────────────────────────────────────────────┘ 24 h without a fetch that did not fail
//
// It reads no clock and does no I/O. The zero value knows no keys.
type keyring struct {
	ofFile   bool // reading the keys burdens nobody else
	known    bool
	fetched  time.Time // when the keys were fetched, by whomever
	interval time.Duration
	fetching bool
	began    time.Time // when the last fetch began; the zero time before the first
	failures int       // fetches that have failed since the last that did not
	stamp    time.Time // when the keys that were adopted last were fetched, by the clock of that process
}

// answer is what a keyring has for a token.
type answer uint8

const (
	use         answer = iota // the keys that are there
	wait                      // for the end of the fetch under way, and ask again
	unknown                   // the issuer has no such key
	unreachable               // nobody knows: try again later
)

// answerFor returns the answer for a token that came at a time, and was issued at another, the zero time if it does not say when. found says that the keys have one that may have signed it. If fetch is
// set, a fetch begins now: begin. retry is when asking again makes sense.
func (k *keyring) answerFor(now, came, issued time.Time, found bool) (a answer, fetch bool, retry time.Duration) {
	good := k.isUsable(now)
	since, apart := now.Sub(k.began), k.spacing()
	free := !k.fetching && (k.began.IsZero() || since >= apart || since < 0)
	tried := since >= 0 && !k.began.Before(came)
	switch {
	case good && found:
		return use, free && k.isDue(now), 0
	case k.fetching:
		return wait, false, 0
	case free && !tried:
		return wait, true, 0
	case k.failures == 0 && good && (tried || !issued.IsZero() && !issued.Add(Leeway).After(k.began)):
		// The keys are of a time when the token had been issued, and so the issuer had its key.
		return unknown, false, 0
	}
	return unreachable, false, apart - since
}

// spacing is the least time between the beginnings of two fetches.
func (k *keyring) spacing() time.Duration {
	switch {
	case !k.ofFile:
		return spacing
	case k.failures > 0:
		return fileSpacing
	}
	return 0
}

// isUsable reports whether the keys may be used.
func (k *keyring) isUsable(now time.Time) bool { return k.known && now.Before(k.goodUntil()) }

// goodUntil is when the keys must not be used any more, unless a fetch does not fail before that.
func (k *keyring) goodUntil() time.Time { return k.fetched.Add(lastGood) }

// isDue reports whether the time has come for a fetch in the background.
func (k *keyring) isDue(now time.Time) bool {
	next := k.nextFetch()
	return !k.fetching && !next.IsZero() && !now.Before(next)
}

// nextFetch is when a fetch in the background is due, the zero time for never: as long as there were no keys, a token must ask for them.
func (k *keyring) nextFetch() time.Time {
	switch {
	case !k.known:
		return time.Time{}
	case k.failures > 0:
		return k.began.Add(min(spacing<<min(k.failures-1, 10), maxBackoff))
	}
	return k.fetched.Add(k.interval)
}

// beginFetch notes that a fetch has begun.
func (k *keyring) beginFetch(now time.Time) { k.fetching, k.began = true, now }

// endFetch notes that a fetch has brought keys, for which the issuer asks for an interval, 0 for none.
func (k *keyring) endFetch(now time.Time, asked time.Duration) {
	k.fetching, k.failures = false, 0
	k.takeKeys(now, asked)
}

// failFetch notes that a fetch has failed.
func (k *keyring) failFetch() {
	k.fetching = false
	k.failures++
}

// adoptKeys takes keys that another process has fetched, and reports whether they are new. If they are fresh, nothing was asked of the issuer yet.
func (k *keyring) adoptKeys(now, fetched time.Time, asked time.Duration) bool {
	stamp := fetched
	if !stamp.After(k.stamp) {
		return false // or keys by a clock that is far ahead would be new each time
	}
	if fetched.After(now) {
		fetched = now // by a clock that is ahead
	}
	if k.known && !fetched.After(k.fetched) || !now.Before(fetched.Add(lastGood)) {
		return false
	}
	k.stamp = stamp
	k.takeKeys(fetched, asked)
	return true
}

// skipFetch notes that the fetch that has begun is not needed, since the keys that were adopted are fresh. It does not count as one.
func (k *keyring) skipFetch() { k.fetching, k.began, k.failures = false, time.Time{}, 0 }

func (k *keyring) takeKeys(fetched time.Time, asked time.Duration) {
	k.known, k.fetched = true, fetched
	k.interval = interval
	if asked != noInterval {
		k.interval = min(max(asked, minInterval), maxInterval)
	}
}

// noInterval is the interval of an issuer that asks for none.
const noInterval time.Duration = -1
