package troupe

import (
	"testing"
	"time"

	"github.com/troupe-run/troupe/cluster"
)

// TestHealthOfAFullDisk checks that a store that cannot write makes the process unhealthy only
// after a minute: it recovers by itself when the disk has room.
func TestHealthOfAFullDisk(t *testing.T) {
	t.Parallel()
	began := time.Now()
	for _, c := range []struct {
		outage *cluster.Outage
		after  time.Duration
		status int
		text   string
	}{
		{nil, 0, 200, "ok\n"},
		{&cluster.Outage{Since: began, Full: true}, 59 * time.Second, 200, "ok\n"},
		{&cluster.Outage{Since: began, Full: true}, time.Minute, 503, "the disk of the store is full, for 1m0s\n"},
		{&cluster.Outage{Since: began}, 2 * time.Minute, 503, "the disk of the store cannot be written, for 2m0s\n"},
	} {
		if status, text := health(c.outage, began.Add(c.after)); status != c.status || text != c.text {
			t.Errorf("after %v of %+v: %d %q, want %d %q", c.after, c.outage, status, text, c.status, c.text)
		}
	}
}
