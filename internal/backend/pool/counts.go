package pool

import "time"

// Counts are how many instances of a backend there are in each state, and how many wants wait.
type Counts struct {
	Starting, Idle, Serving, Stopping int
	Waiting                           int
}

// An Activity is what an instance does.
type Activity string

const (
	Starting Activity = "starting"
	Idle     Activity = "idle"
	Serving  Activity = "serving"
	Stopping Activity = "stopping"
)

// activity is what the instance does.
func (in *instance) activity() Activity {
	switch {
	case in.state == starting:
		return Starting
	case in.state == stopping:
		return Stopping
	case len(in.serves) > 0:
		return Serving
	}
	return Idle
}

// counts are those of the backend.
func (b *backend) counts() Counts {
	c := Counts{Waiting: b.waiting}
	for _, of := range b.instances {
		for _, in := range of {
			switch in.activity() {
			case Starting:
				c.Starting++
			case Idle:
				c.Idle++
			case Serving:
				c.Serving++
			case Stopping:
				c.Stopping++
			}
		}
	}
	return c
}

// Counts returns those of each backend, by its name.
func (s *stock) Counts() map[string]Counts {
	all := make(map[string]Counts, len(s.backends))
	for name, b := range s.backends {
		all[name] = b.counts()
	}
	return all
}

// A Report is how it stands with a backend.
type Report struct {
	Counts
	Failures  int       // in a row, since an instance has lived for long
	Detail    string    // of the last one
	Until     time.Time // no instance begins before; zero if none has failed
	Open      bool      // wants are refused until then
	Instances []Instance
}

// An Instance is what a [Report] has of one.
type Instance struct {
	ID       InstanceID
	Activity Activity
	Calls    int  // that it serves
	Ends     bool // it gets no more of them, and ends when it serves none
}

// Reports returns that of each backend, by its name, with its instances, the oldest first.
func (s *stock) Reports(now time.Time) map[string]Report {
	all := make(map[string]Report, len(s.backends))
	for name, b := range s.backends {
		r := Report{Counts: b.counts(), Failures: b.faults.failures, Detail: b.faults.detail, Until: b.faults.until, Open: b.faults.isBreakerOpen(now)}
		for _, in := range b.sortedInstances() {
			ends := in.replaced || in.spent || in.state == stopping || b.gone || in.kind.Digest != b.digest
			r.Instances = append(r.Instances, Instance{in.id, in.activity(), len(in.serves), ends})
		}
		all[name] = r
	}
	return all
}
