package when

import (
	"os"
	"testing"
	"time"

	"github.com/troupe-run/troupe/internal/bubble"
)

// RaceEnabled is [bubble.RaceEnabled].
const RaceEnabled = bubble.RaceEnabled

// Long skips a test with -short, which leaves out what takes long. The reason says what that is.
func Long(t testing.TB, reason string) {
	t.Helper()
	if testing.Short() {
		t.Skip(reason + ": runs without -short")
	}
}

// Full skips a test unless the tests are built with the tag "full". It is for tests whose outcome depends on how fast or how busy the machine is, and for those
// that take minutes: the gate runs without them, and .ci/night with them. The reason says why the test is one of them.
func Full(t testing.TB, reason string) {
	t.Helper()
	if !FullSize {
		t.Skip(reason + ": runs with -tags full")
	}
}

// Unraced skips a test under the race detector, unless the tests are built with the tag "full". It is for tests in which the detector sees nothing, as those of
// processes that are built without it, and for those that it makes many times longer: the gate runs them without it. The reason says which it is.
func Unraced(t testing.TB, reason string) {
	t.Helper()
	if RaceEnabled && !FullSize {
		t.Skip(reason + ": runs without -race")
	}
}

// Lacking skips a test for want of what the machine does not have, such as a program or a right, and fails it where the variable CI is set: there all that tests need is
// to be had. What says what is missing.
func Lacking(t testing.TB, what string) {
	t.Helper()
	if os.Getenv("CI") != "" {
		t.Fatal("NOT TESTED: " + what)
	}
	t.Skip("NOT TESTED: " + what)
}

// Within fails the test if something took longer than limit. It measures only with the tag "full": how long something takes on a busy machine says
// nothing about it.
func Within(t testing.TB, what string, took, limit time.Duration) {
	t.Helper()
	if FullSize && took > limit {
		t.Errorf("%s took %v, longer than %v", what, took, limit)
	}
}
