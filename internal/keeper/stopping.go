package keeper

import "time"

// How far the end of a process and its descendants is.
type stopStage int

const (
	stageRunning    stopStage = iota
	stageAsked                // its standard input is closed
	stageTerminated           // its group has SIGTERM
	stageKilling              // each of them gets SIGKILL, until none is left
	stageGone
)

// What is to be done for that.
type stopAct int

const (
	actWait stopAct = iota
	actCloseInput
	actTerminate
	actKill
	actFinish
)

// Waits of the end of a process.
const (
	descendantGrace = 500 * time.Millisecond // the most that descendants get for each step once the process itself has ended
	pollLeft        = 10 * time.Millisecond  // how often it is asked who is left, at first and while they are killed
	pollMost        = 200 * time.Millisecond // and in the end
	longWait        = time.Hour
)

// stopping is the end of one process and its descendants. The zero value runs; grace and term say how long it has after the end of its input, and after SIGTERM.
type stopping struct {
	grace, term time.Duration
	stage       stopStage
	since       time.Time // of the stage
	closed      bool      // whether its input was closed
	exited      bool      // whether the process itself was reaped
	polls       int       // how often it was asked who is left since then
}

// beginEnd begins the end. It reports whether it has not begun before.
func (s *stopping) beginEnd(now time.Time) bool {
	if s.stage != stageRunning {
		return false
	}
	s.stage, s.since = stageAsked, now
	return true
}

// markExited says that the process itself has ended: what is left of it has no reason to go on, and less time.
func (s *stopping) markExited(now time.Time) {
	s.exited = true
	s.grace, s.term = min(s.grace, descendantGrace), min(s.term, descendantGrace)
	s.beginEnd(now)
}

// step says what to do now, and how long to wait after that unless something happens. left is how many descendants there are, the process itself among them; before it is reaped, that
// does not matter.
func (s *stopping) step(now time.Time, left int) (stopAct, time.Duration) {
	switch {
	case s.stage == stageRunning, s.stage == stageGone:
		return actWait, longWait
	case !s.closed:
		s.closed = true
		return actCloseInput, 0
	case s.exited && left == 0:
		s.stage = stageGone
		return actFinish, 0
	}
	switch s.stage {
	case stageAsked:
		if rest := s.since.Add(s.grace).Sub(now); rest > 0 {
			return actWait, min(rest, s.nextPollWait())
		}
		s.stage, s.since, s.polls = stageTerminated, now, 0
		return actTerminate, min(s.term, s.nextPollWait())
	case stageTerminated:
		if rest := s.since.Add(s.term).Sub(now); rest > 0 {
			return actWait, min(rest, s.nextPollWait())
		}
		s.stage, s.since, s.polls = stageKilling, now, 0
	}
	return actKill, s.nextPollWait()
}

// nextPollWait returns how long to wait before asking again who is left. The end of the process itself is known without asking.
func (s *stopping) nextPollWait() time.Duration {
	if !s.exited && s.stage != stageKilling {
		return longWait
	}
	s.polls++
	return min(pollMost, pollLeft<<min(s.polls/4, 8))
}
