package pool

import "time"

// A Restart is what [RestartBackend] has done.
type Restart struct {
	Ended    int    // instances that end at once
	Ending   int    // instances that end when their calls have
	Calls    int    // that those serve, or that those which end at once served
	Failures int    // in a row, which are forgotten
	Opened   bool   // the breaker was open
	Detail   string // of the last failure
}

// RestartBackend has new instances take the place of those of a backend. The old ones get no more wants, and end when
// their calls have, or atOnce. Those that start serve nobody, and end in either case. That the backend has failed is
// forgotten, so that the next one starts without a pause. ok is false if there is no such backend.
func RestartBackend(p *Pool, now time.Time, name string, atOnce bool) (did Restart, ok bool, todo []Effect) {
	b := p.backends[name]
	if b == nil || b.gone || p.shut {
		return Restart{}, false, nil
	}
	did = Restart{Failures: b.faults.failures, Opened: b.faults.isBreakerOpen(now), Detail: b.faults.detail}
	b.faults = faults{}
	for _, in := range b.sortedInstances() {
		if in.state == stopping {
			continue
		}
		did.Calls += len(in.serves)
		if atOnce || len(in.serves) == 0 {
			did.Ended++
			p.stopInstance(in, Restarted)
			continue
		}
		did.Ending++
		in.replaced = true
	}
	p.settle(now, b)
	return did, true, p.takeEffects()
}
