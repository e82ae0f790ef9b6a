package worker

import (
	"errors"
	"testing"
	"time"

	"github.com/troupe-run/troupe/internal/kernel"
	"github.com/troupe-run/troupe/internal/quota"
	"github.com/troupe-run/troupe/internal/task"
)

// newTestPool returns a pool without a store, with one place.
func newTestPool() *Pool {
	p := &Pool{Config: Config{Kernel: kernel.New(kernel.Config{Kinds: []string{"task", "queue"}})}, places: quota.NewPlaces[*assignment](1, 1)}
	p.actors = taskActors{kernel.NewDirectory[Key, *taskActor](), p}
	return p
}

// newTestWork returns work of a mounted server.
func newTestWork(t *testing.T, p *Pool) *assignment {
	return &assignment{Work: noWork{}, s: &serving{p: p, ctx: t.Context()}, who: "w"}
}

// TestPanicsWhileWorkIsLookedAt: whatever the actor of a task panics on from the arrival of work to the beginning of its
// attempt, it answers who waits, and other work of the task is looked at afterwards.
func TestPanicsWhileWorkIsLookedAt(t *testing.T) {
	t.Parallel()
	o := &offer{}
	// wait has work wait for its record, whose timer cannot be stopped.
	wait := func(t *testing.T, ta *taskActor) *opening {
		m := &opening{w: newTestWork(t, ta.p)}
		m.Init()
		_ = ta.Post(m)
		m.stopTimer()
		m.stopTimer = func() { panic("on purpose") }
		return m
	}
	for name, fail := range map[string]func(t *testing.T, ta *taskActor) error{
		"work comes": func(t *testing.T, ta *taskActor) error {
			return ta.askActor(&opening{w: &assignment{Work: noWork{}}}) // of no server
		},
		"its record is stored": func(t *testing.T, ta *taskActor) error {
			m := wait(t, ta)
			_ = ta.Post(offerSettled{o})
			m.Wait()
			return m.err
		},
		"its record does not come": func(t *testing.T, ta *taskActor) error {
			m := wait(t, ta)
			_ = ta.Post(recordWaited{m})
			m.Wait()
			return m.err
		},
		"its attempt has begun": func(t *testing.T, ta *taskActor) error {
			m := &opening{w: newTestWork(t, ta.p)}
			_ = ta.Post(m)
			_ = ta.Post(offerSettled{o})
			_ = ta.Post(taskCancelled{})
			a := &Attempt{}
			a.cancel = func(error) { panic("on purpose") }
			return ta.askActor(&opened{w: m.w, a: a})
		},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			p := newTestPool()
			ta := p.actors.tellActor(Key{ID: "t"}, offerBegun{o})
			if err := fail(t, ta); !errors.Is(err, errBroken) {
				t.Errorf("who waits is told %v, want %v", err, errBroken)
			}
			_ = ta.Post(offerSettled{o})
			next := &opening{w: newTestWork(t, p)}
			next.Init()
			ta = p.actors.tellActor(ta.key, next)
			if next.Wait(); next.err != nil || !next.granted {
				t.Errorf("other work is looked at: %v, %v", next.granted, next.err)
			}
			if err := ta.askActor(&opened{w: next.w}); err != nil || p.Kernel.Live(p.TaskKind) != 0 {
				t.Errorf("the actor has not ended with the last work: %v", err)
			}
			if n := p.Kernel.Panics(); n != 1 {
				t.Errorf("%d panics are counted, want 1", n)
			}
		})
	}
}

// TestAnAttemptWhoseActorPanics: an attempt that its actor cannot take in is over before its handler runs, and gives
// its place back.
func TestAnAttemptWhoseActorPanics(t *testing.T) {
	t.Parallel()
	p := newTestPool()
	w := newTestWork(t, p)
	if !p.places.TakePlace(w.who, false) {
		t.Fatal("there is no place")
	}
	ta := p.actors.tellActor(Key{ID: "t"}, offerBegun{&offer{}})
	ta.opening, ta.revoked = w, true
	var cause error
	a := &Attempt{Key: ta.key, p: p, s: w.s, work: w, endSuspicion: func() {}, expiry: time.AfterFunc(time.Hour, func() {})}
	a.fence = fence{key: ta.key, turn: make(chan struct{}, 1), cancel: func(err error) {
		if cause == nil {
			cause = err
			panic("on purpose")
		}
		cause = err
	}}
	a.known.Store(&known{rec: task.Record{}})
	if a.enterActor(w) {
		t.Error("it is said to have begun")
	}
	if !errors.Is(cause, ErrTakenOver) {
		t.Errorf("it ended with %v, want %v", cause, ErrTakenOver)
	}
	if running, _ := p.places.Counts(); running != 0 || len(ta.attempts) != 0 || ta.opening != nil {
		t.Errorf("%d places are taken, the actor has %d attempts", running, len(ta.attempts))
	}
	if err := a.takeTurn(func() error { return nil }); !errors.Is(err, ErrTakenOver) {
		t.Errorf("what is left of it may change the task: %v", err)
	}
}
