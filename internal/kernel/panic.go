package kernel

import (
	"fmt"
	"hash/fnv"
	"io"
	"runtime/debug"
	"time"

	"github.com/asynkron/protoactor-go/actor"
	"github.com/asynkron/protoactor-go/eventstream"
)

const (
	// PanicLimit is the number of panics within a minute that ends an actor.
	PanicLimit  = 3
	panicWindow = time.Minute
)

// strategy decides how to go on after a panic: like protoactor with one child of many,
// which goes on, or ends after its last allowed failure.
var strategy = actor.NewOneForOneStrategy(PanicLimit-1, panicWindow, actor.DefaultDecider)

// system is where the strategy tells of its decisions, which nobody hears.
var system = &actor.ActorSystem{EventStream: eventstream.NewEventStream()}

// panicked contains a panic of Receive on m.
func (c *Actor) panicked(m, r any) {
	c.k.panics.Add(1)
	c.k.log.Error("actor panicked", "actor", c.name(), "message", fmt.Sprintf("%T", m), "panic", r, "stack", string(debug.Stack()))
	if c.failures == nil || c.failures.NumberOfFailures(panicWindow) == 0 { // older failures no longer count
		c.failures = actor.NewRestartStatistics()
	}
	strategy.HandleFailure(system, failure{c, m}, nil, c.failures, r, m)
}

// failure is the supervisor of an actor that has panicked on m: it carries out the
// strategy's decision.
type failure struct {
	c *Actor
	m any
}

var _ actor.Supervisor = failure{}

// RestartChildren lets the actor complete what others wait for, and go on.
func (f failure) RestartChildren(...*actor.PID) { f.tell(false) }

// ResumeChildren does the same as RestartChildren: what others wait for must be completed.
func (f failure) ResumeChildren(...*actor.PID) { f.tell(false) }

// StopChildren ends the actor.
func (f failure) StopChildren(...*actor.PID) { f.tell(true) }

// EscalateFailure ends the actor, as the kernel has no supervisor.
func (f failure) EscalateFailure(any, any) { f.tell(true) }

// Children is empty: the strategy's decision is about the actor that has failed.
func (f failure) Children() []*actor.PID { return nil }

func (f failure) tell(last bool) {
	c := f.c
	defer func() {
		if r := recover(); r != nil {
			c.k.log.Error("actor panicked while failing", "actor", c.name(), "panic", r)
		}
		if last {
			c.Stop()
		}
	}()
	c.b.Failed(f.m, last)
}

// name is the actor's name in the log: its kind and a number. Its key may be a secret, such
// as the id of a session.
func (c *Actor) name() string {
	h := fnv.New32a()
	_, _ = io.WriteString(h, c.key)
	return fmt.Sprintf("%s#%08x", c.k.kinds[c.kind], h.Sum32())
}

// Contain runs f and returns normally when f panics: the panic is logged and counted
// ([Kernel.Panics]), and does not bring the actor closer to [PanicLimit]. An actor uses it
// for steps that must not keep the next step from happening.
func (c *Actor) Contain(f func()) {
	defer func() {
		if r := recover(); r != nil {
			c.k.panics.Add(1)
			c.k.log.Error("actor panicked", "actor", c.name(), "panic", r, "stack", string(debug.Stack()))
		}
	}()
	f()
}
