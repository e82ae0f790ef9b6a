package tasknews

import (
	"context"
	"strconv"
	"testing"
	"testing/synctest"
	"time"

	"github.com/troupe-run/troupe/actors"
	"github.com/troupe-run/troupe/internal/worker"
)

// listener is a node with the stream of every session.
type listener struct{ told int }

func (l *listener) PushTo(actors.SessionKey, string, []byte) bool { l.told++; return true }
func (l *listener) TellTask(*actors.TaskChange)                   {}

// TestFewStatesAreRemembered: a state is told once, and only so many are remembered for that.
func TestFewStatesAreRemembered(t *testing.T) {
	t.Parallel()
	var l listener
	var teller Teller
	teller.Start(&l, true)
	for i := range 2 * toldTasks {
		id := strconv.Itoa(i)
		for range 2 {
			teller.Push(worker.Key{ID: id}, &actors.TaskChange{ID: id, Rev: 1})
		}
	}
	if l.told != 2*toldTasks {
		t.Errorf("%d states were told, want %d", l.told, 2*toldTasks)
	}
	if n := len(teller.told); n > toldTasks || n == 0 {
		t.Errorf("the states of %d tasks are remembered, want at most %d", n, toldTasks)
	}
}

// noTasks has none.
type noTasks struct{}

func (noTasks) Get(context.Context, worker.Key) (worker.Snapshot, error) {
	return worker.Snapshot{}, worker.ErrUnknown
}

// TestAReminderEndsNoLaterOne: one that finds its task running, or gone, leaves what has begun since then.
func TestAReminderEndsNoLaterOne(t *testing.T) {
	t.Parallel()
	var rs Reminders
	rs.Start(Config{Tasks: noTasks{}})
	key := worker.Key{Tenant: "anon", Server: "main", ID: "gone"}
	first, second := &reminder{asked: 1}, &reminder{asked: 2}
	rs.due = map[worker.Key]*reminder{key: second}
	if rs.remindSession(key, first, taskPatience); rs.due[key] != second {
		t.Error("the reminder of the second question has ended with that of the first")
	}
	if rs.remindSession(key, second, taskPatience); rs.due[key] != nil {
		t.Error("the reminder of a task that is gone goes on")
	}
}

// TestAskersElsewhereAreForgotten: of a node that tells no more who asks nothing is left when its question can have no answer any more, asked for or not.
func TestAskersElsewhereAreForgotten(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var rs Reminders
		for i := range 100 {
			rs.setAsked(worker.Key{ID: strconv.Itoa(i)}, time.Minute)
		}
		time.Sleep(30 * time.Second)
		again, over := worker.Key{ID: "1"}, worker.Key{ID: "2"}
		rs.setAsked(again, time.Minute)
		rs.setAsked(over, 0)
		if !rs.isAsked(again) || rs.isAsked(over) {
			t.Error("what was told last does not count")
		}
		time.Sleep(31 * time.Second)
		synctest.Wait()
		if len(rs.elsewhere) != 1 || !rs.isAsked(again) {
			t.Errorf("after a minute others ask for %d tasks, want that of which they told again", len(rs.elsewhere))
		}
		rs.Close()
		rs.setAsked(again, time.Minute)
		if len(rs.elsewhere) != 0 {
			t.Error("it goes on after the end")
		}
	})
}
