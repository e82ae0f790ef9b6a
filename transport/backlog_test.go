package transport

import (
	"testing"
	"testing/synctest"
	"time"
)

// TestBacklog has events come to a queue for 100 bytes, and a reader that takes some of them. A step is an event of so many
// bytes, or a read if it is negative, or a wait if it is 0.
func TestBacklog(t *testing.T) {
	t.Parallel()
	for name, row := range map[string]struct {
		steps []int
		taken int // events
	}{
		"small events, up to the limit":            {[]int{40, 40, 20, 1}, 3},
		"a large one is taken, and others with it": {[]int{10, 5000, 20, 30, 40}, 5},
		"and no more than there is room for":       {[]int{10, 5000, 40, 40, 20, 1}, 5},
		"two that are large":                       {[]int{60, 60, 40}, 3},
		"large ones up to four times the limit":    {[]int{90, 90, 90, 90, 90, 20, 1}, 5},
		"a very large one behind another":          {[]int{90, 5000, 20}, 2},
		"a large one that is read in part":         {[]int{5000, -4990, 90, -90, 90, 90, 90}, 5},
		"a large one that is not read in time":     {[]int{5000, 0, 1}, 1},
		"its time is not that of the next":         {[]int{90, 90, 0, 1}, 2},
		"unless it was read":                       {[]int{90, -90, 0, 90, 40}, 3},
	} {
		synctest.Test(t, func(t *testing.T) {
			var b backlog
			queued, taken := 0, 0
			for _, n := range row.steps {
				switch {
				case n == 0:
					time.Sleep(time.Minute)
				case n < 0:
					queued += n
					b.noteWritten(-n, queued)
				case b.fitsEvent(queued, n, 100):
					queued += n
					b.noteQueued(queued, n, 100, time.Minute)
					taken++
				default:
					goto cut
				}
			}
		cut:
			if taken != row.taken {
				t.Errorf("%s: took %d events, want %d", name, taken, row.taken)
			}
		})
	}
}
