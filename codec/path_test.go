package codec

import (
	"runtime/debug"
	"strings"
	"testing"
)

// TestPath says which path the tests of this build take, and that the tag decides it.
func TestPath(t *testing.T) {
	t.Parallel()
	info, ok := debug.ReadBuildInfo()
	if !ok {
		t.Skip("a binary without build information")
	}
	want := ""
	for _, s := range info.Settings {
		if s.Key == "-tags" && strings.Contains(","+s.Value+",", ",troupe_nosonic,") {
			want = "json/v2"
		}
	}
	if got := Path(); want != "" && got != want || (got == "sonic native") != Native {
		t.Errorf("payloads go through %s, and Native is %v", got, Native)
	}
}
