package cluster

import (
	"bytes"
	"fmt"
	"github.com/troupe-run/troupe/cluster/internal/embedded"
	"log/slog"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"
)

// TestUnreadableBlocks: records that the store lost, because a bit of a file changed or the file is gone, are logged and counted at the start.
func TestUnreadableBlocks(t *testing.T) {
	t.Parallel()
	for what, c := range map[string]struct {
		harm func(data []byte) []byte // nil removes the file
		want string
		lost bool
	}{
		"a bit of a record":    {func(b []byte) []byte { b[bytes.Index(b, []byte("session 10"))] ^= 1; return b }, "the end of a file of the store cannot be read", true},
		"a bit of a length":    {func(b []byte) []byte { b[bytes.Index(b, []byte("session.t.s.id10"))-2] ^= 64; return b }, "the end of a file of the store cannot be read", true},
		"a file":               {nil, "a stream of the store has no file with messages", true},
		"a write that was cut": {func(b []byte) []byte { return b[:len(b)-3] }, "unless it is a write", true},
		"nothing":              {func(b []byte) []byte { return b }, "", false},
	} {
		t.Run(what, func(t *testing.T) {
			t.Parallel()
			dir := t.TempDir()
			n := must[*Node](t)(Open(t.Context(), Options{Dir: dir}))
			for i := range 20 {
				must[uint64](t)(n.Create(t.Context(), fmt.Sprintf("session.t.s.id%02d", i), fmt.Appendf(nil, "session %02d", i), time.Hour))
			}
			change(t, n.Close(t.Context()))
			msgs := filepath.Join(dir, embedded.StoreDir, "$G", "streams", "sessions", "msgs")
			change(t, os.Remove(filepath.Join(msgs, "index.db"))) // A process that is killed leaves none.
			path := filepath.Join(msgs, "1.blk")
			if c.harm == nil {
				change(t, os.Remove(path))
			} else {
				change(t, os.WriteFile(path, c.harm(must[[]byte](t)(os.ReadFile(path))), 0o600))
			}
			var log syncBuffer
			n = open(t, Options{Dir: dir, Log: slog.New(slog.NewTextHandler(&log, nil))})
			left := countMessages(t, n, "sessions")
			if lost := left < 20; lost != c.lost {
				t.Errorf("%d of 20 sessions are there", left)
			}
			count := uint64(0)
			if c.lost {
				count = 1
			}
			if got := n.Unreadable(); got != count {
				t.Errorf("%d are counted, want %d", got, count)
			}
			if said := strings.Contains(log.String(), "level=ERROR"); said != c.lost || !strings.Contains(log.String(), c.want) || c.lost && !strings.Contains(log.String(), "stream=sessions") {
				t.Errorf("the log, which should have %q:\n%s", c.want, log.String())
			}
		})
	}
}

// TestZerosBehindTheLastWrite opens a store as a kill in the middle of a write, or a power cut, may leave it: with zeros behind what was written, and with the server's index of
// a start before, when the file was empty.
func TestZerosBehindTheLastWrite(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	change(t, must[*Node](t)(Open(t.Context(), Options{Dir: dir})).Close(t.Context())) // leaves an index of empty files
	n := must[*Node](t)(Open(t.Context(), Options{Dir: dir}))
	for i := range 20 {
		must[uint64](t)(n.Create(t.Context(), fmt.Sprintf("session.t.s.id%02d", i), fmt.Appendf(nil, "session %02d", i), time.Hour))
	}
	killed := filepath.Join(t.TempDir(), "killed")
	change(t, os.CopyFS(killed, os.DirFS(dir)))
	change(t, n.Close(t.Context()))
	msgs := filepath.Join(killed, embedded.StoreDir, "$G", "streams", "sessions", "msgs")
	if _, err := os.Stat(filepath.Join(msgs, "index.db")); err != nil {
		t.Fatal("there is no index, so that this shows nothing: ", err)
	}
	files := must[[]string](t)(filepath.Glob(filepath.Join(msgs, "*.blk")))
	last := files[len(files)-1]
	data := must[[]byte](t)(os.ReadFile(last))
	if len(data) == 0 {
		t.Fatal("the file of the sessions is empty, so that this shows nothing")
	}
	change(t, os.WriteFile(last, append(data, make([]byte, 266)...), 0o600))
	change(t, os.Chmod(killed, 0o700))
	n = open(t, Options{Dir: killed})
	if got := countMessages(t, n, "sessions"); got != 20 {
		t.Errorf("%d of 20 sessions are there", got)
	}
}

// TestIndexesThatAreMadeAnew warn nobody: every kill and every restore leaves some. What else the store warns of stays a warning.
func TestIndexesThatAreMadeAnew(t *testing.T) {
	t.Parallel()
	for text, want := range map[string]slog.Level{
		"Filestore [events-1] Stream state outdated, last block has additional entries, will rebuild":  slog.LevelInfo,
		"Filestore [events-1] Recovering stream state from index errored: prior state file":            slog.LevelInfo,
		"Filestore [keys] TTL state is outdated; attempting to recover using linear scan (seq 1 to 7)": slog.LevelInfo,
		"Filestore [keys] Recovering stream state from index errored: corrupt state file":              slog.LevelWarn,
		"JetStream is out of room, which will rebuild":                                                 slog.LevelWarn,
	} {
		var b bytes.Buffer
		serverLog{log: slog.New(slog.NewTextHandler(&b, nil))}.Warnf("%s", text)
		if !strings.Contains(b.String(), "level="+want.String()+" ") {
			t.Errorf("want %v: %s", want, b.String())
		}
	}
}
