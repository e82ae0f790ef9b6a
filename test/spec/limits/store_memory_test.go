package limits_test

import (
	"bytes"
	"log/slog"
	"os"
	"path/filepath"
	"regexp"
	"strconv"
	"strings"
	"testing"

	"github.com/troupe-run/troupe"
)

// TestStoreFitsTheMemory checks how large a store is by default, and that a larger one is taken with a warning.
func TestStoreFitsTheMemory(t *testing.T) {
	t.Parallel()
	for _, tt := range []struct {
		name          string
		memory, given int64
		least, most   int64 // of all that may be stored
		warns         bool
	}{
		{"1 GiB of memory", 1 << 30, 0, 700 << 20, 776 << 20, false},
		{"a lot of memory", 1 << 40, 0, 8000 << 20, 8 << 30, false},
		{"as much as is given", 1 << 30, 4 << 30, 4000 << 20, 4 << 30, true},
		{"less than there could be", 1 << 30, 100 << 20, 90 << 20, 100 << 20, false},
	} {
		var log bytes.Buffer
		dir := t.TempDir()
		rt, err := troupe.New(troupe.Options{Dir: dir, Log: slog.New(slog.NewTextHandler(&log, &slog.HandlerOptions{Level: slog.LevelWarn})),
			Store: troupe.StoreOptions{MaxStore: tt.given}, Shared: troupe.SharedLimits{MaxMemory: tt.memory}})
		if err != nil {
			t.Fatal(err)
		}
		if err := rt.Close(t.Context()); err != nil {
			t.Error(err)
		}
		streams, err := os.ReadFile(filepath.Join(dir, "streams.json"))
		if err != nil {
			t.Fatal(err)
		}
		total := int64(0)
		for _, m := range regexp.MustCompile(`max_bytes\\":(\d+)`).FindAllSubmatch(streams, -1) {
			n, _ := strconv.ParseInt(string(m[1]), 10, 64)
			total += n
		}
		if total < tt.least || total > tt.most {
			t.Errorf("%s: the store has %d MiB, want %d to %d", tt.name, total>>20, tt.least>>20, tt.most>>20)
		}
		if got := strings.Contains(log.String(), "may need more memory"); got != tt.warns {
			t.Errorf("%s: warns %t, want %t: %s", tt.name, got, tt.warns, log.String())
		}
	}
}
