package recovery_test

import (
	"context"
	"log/slog"
	"path/filepath"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/troupe-run/troupe"
	"github.com/troupe-run/troupe/test/kit"
	"github.com/troupe-run/troupe/test/spec/host"
)

// TestTheLogHasNoIds logs everything that a runtime logs, the embedded store included, of sessions, streams and listeners
// that begin, are resumed, end and survive a crash. The log has hashes in place of their ids.
func TestTheLogHasNoIds(t *testing.T) {
	kit.Bubble(t, func(t *testing.T) {
		var log host.Lines
		dir := filepath.Join(t.TempDir(), "d")
		o := troupe.Options{Dir: dir, Log: slog.New(slog.NewTextHandler(&log, &slog.HandlerOptions{Level: slog.LevelDebug - 8})), Limits: troupe.Limits{PingEvery: 10 * time.Second, MaxCall: time.Minute}}
		h := host.New(t, o, nil)
		h.AddTool("stuck", 0, func(ctx context.Context, _ *troupe.Call) (string, error) {
			<-ctx.Done()
			return "", ctx.Err()
		})
		var ids []string
		note := func(c *kit.Client, events ...kit.Event) {
			ids = append(ids, c.Session[:min(len(c.Session), 26)])
			for _, e := range events {
				id, _, _ := strings.Cut(e.ID, ".")
				ids = append(ids, id)
			}
		}
		silent, busy, deleted := h.Session(), h.Session(), h.Session()
		listens := silent.Get("") // and answers no pings
		first, _ := listens.Next()
		note(silent, first)
		stuck := busy.Post(host.Call("1", "stuck", `{}`)) // which may not run again
		prime, _ := stuck.Next()
		note(busy, prime)
		counted := deleted.Post(host.CallWith("1", "count", `{"to":3,"delay_ms":300}`, "1")).All()
		note(deleted, counted...)
		deleted.Get(counted[0].ID).All()
		deleted.Do("DELETE", "")
		deleted.Post(host.Call("2", "echo", `{"text":"x"}`))
		old := h.SSE()
		old.Handshake("2024-11-05", `{}`)
		time.Sleep(40 * time.Second) // two pings are lost
		next, moved := host.Crashed(t, dir, o, busy)
		resumed := moved.Get(prime.ID)
		defer resumed.Close()
		host.Contains(t, "the call of the process that is gone", host.Last(t, resumed), "-32010")
		next.Moved(deleted).Get(counted[0].ID).Close()
		next.Moved(silent).Get(first.ID).Close()
		synctest.Wait()
		listens.Close()
		stuck.Close()
		got := log.String()
		for _, id := range ids {
			if len(id) != 26 {
				t.Fatalf("%q is no id", id)
			}
			if strings.Contains(got, id) {
				t.Errorf("the log shows the id %s", id)
			}
		}
		host.Contains(t, "the log", got, "client does not answer pings")
		if !strings.Contains(got, "session=#") || !strings.Contains(got, "component=nats") {
			t.Errorf("the log has no hash, or nothing of the store: %s", got)
		}
	})
}
