package limits

import (
	"bytes"
	"log/slog"
	"strings"
	"testing"
	"testing/synctest"
	"time"
)

func TestConnectionsOf(t *testing.T) {
	t.Parallel()
	const gib = 1 << 30
	for _, tt := range []struct {
		all, perAddress, files  int
		memory                  int64
		wantAll, wantPerAddress int
	}{
		{0, 1024, 1 << 20, 512 << 20, 8192, 512},
		{0, 1024, 1 << 20, 24 * gib, 393_216, 1024},
		{0, 1024, 1 << 20, 1 << 50, 1<<20 - 256, 1024},
		{0, 1024, 2048, gib, 1792, 112},
		{0, 1024, 1024, gib, 768, 48},
		{0, 1024, 200, gib, 150, 9},
		{0, -1, 200, gib, 150, 0},
		{0, 7, 1, gib, 1, 1},
		{0, 1024, 0, gib, 16_384, 1024},
		{0, 1024, 1024, 0, 768, 48},
		{0, 1024, 0, 0, 0, 1024},
		{100, 1024, 200, gib, 100, 6},
		{100_000, 1024, 200, 1 << 20, 100_000, 1024},
		{3, 1024, 200, gib, 3, 1},
		{100, -1, 0, gib, 100, 0},
	} {
		if all, perAddress := connectionsOf(tt.all, tt.perAddress, tt.files, tt.memory); all != tt.wantAll || perAddress != tt.wantPerAddress {
			t.Errorf("%d and %d of %d files and %d bytes: %d and %d, want %d and %d", tt.all, tt.perAddress, tt.files, tt.memory, all, perAddress, tt.wantAll, tt.wantPerAddress)
		}
	}
	if all, _ := ConnectionsOf(0, 0, gib); all < 1 || all > 16_384 {
		t.Errorf("of this process: %d", all)
	}
}

// TestLog hits a limit often: one record a minute says how often.
func TestLog(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var b bytes.Buffer
		l := NewLog(slog.New(slog.NewTextHandler(&b, nil)))
		told := func() (lines []string) {
			for line := range strings.Lines(b.String()) {
				lines = append(lines, line)
			}
			b.Reset()
			return lines
		}
		for range 1000 {
			l.Hit(ConnectionsPerAddress.Row, slog.String("address", "192.0.2.1"))
			l.Hit(HeaderTimeout.Row)
		}
		lines := told()
		if len(lines) != 2 || !strings.Contains(lines[0], "times=1 address=192.0.2.1 setting=connections-per-address option=Options.HTTP.ConnectionsPerAddress") {
			t.Errorf("a thousand at once: %q", lines)
		}
		time.Sleep(time.Minute)
		l.Hit(ConnectionsPerAddress.Row)
		if lines := told(); len(lines) != 1 || !strings.Contains(lines[0], "times=1000 ") {
			t.Errorf("after a minute: %q", lines)
		}
		for _, r := range []*Row{MemoryShare.Row, NodeShare.Row, StoreShare.Row, Grace.Row, Recall.Row, nil} {
			l.Hit(r)
		}
		want := []string{
			`limit="memory that it has the node hold" times=1 setting=max-memory option=Options.Shared.MaxMemory`,
			`limit="a principal's share of these requests" times=1 setting=calls-per-node option=Options.Shared.CallsPerNode`,
			`limit="share of the store when it is short of room" times=1 setting=max-store option=Options.Store.MaxStore`,
			`limit="time for which a call waits to answer as plain JSON" times=1 setting=sse-grace option=Options.Limits.Grace`,
		}
		lines = told()
		for i := range want {
			if len(lines) != len(want) || !strings.Contains(lines[i], want[i]) {
				t.Fatalf("shares, a setting of another name, a limit that is usually hit, and none: %q", lines)
			}
		}
		for range 3 {
			l.LogRarely(slog.LevelInfo, "something happens", slog.String("to", "x"))
		}
		time.Sleep(time.Minute)
		l.LogRarely(slog.LevelInfo, "something happens", slog.String("to", "y"))
		if lines := told(); len(lines) != 2 || !strings.Contains(lines[0], `level=INFO msg="something happens" times=1 to=x`) || !strings.Contains(lines[1], "times=3 to=y") {
			t.Errorf("what is no limit: %q", lines)
		}
		(*Log)(nil).Hit(MaxBody.Row)
	})
}
