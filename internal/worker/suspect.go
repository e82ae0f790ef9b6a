package worker

import (
	"sync"
	"time"

	"github.com/troupe-run/troupe/internal/limits"
	"github.com/troupe-run/troupe/internal/task"
)

// A process that is lost takes down all that it runs, and one of these tasks may be why. Each of them counts as lost, so that five such
// losses would end all; while few of them run at a time, most have not begun when the process is lost once more, and do not count.
const (
	// suspectAfter is after how many losses in a row a task is a suspect.
	suspectAfter = 2
	// suspectFor is for how long a suspect runs before it is none any more, unless it stores a step or ends before.
	suspectFor = time.Second
)

// mostSuspects is how many suspects run at a time.
var mostSuspects = limits.TaskSuspects.Value()

// suspects are the places of tasks that may be what ends processes.
type suspects chan struct{}

// admit gives a task that is about to begin one of the places for suspects, if it is one. clear gives the place back, once; nil: there is none now.
func (s suspects) admit(r *task.Record) (clear func()) {
	if r.State == task.Ended || r.Lost < suspectAfter {
		return func() {}
	}
	select {
	case s <- struct{}{}:
		return sync.OnceFunc(func() { <-s })
	default:
		return nil
	}
}
