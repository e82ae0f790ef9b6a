package pool

import (
	"flag"
	"fmt"
	"math/rand/v2"
	"slices"
	"testing"
	"time"
)

var histories = flag.Int("histories", 300, "random histories to run")

// world does what a pool asks for, sooner or later, and judges it.
type world struct {
	t    *testing.T
	r    *rand.Rand
	p    *Pool
	now  time.Time
	log  []string
	of   map[string]Terms
	size Bounds

	wants     map[WantID]Want // that have had no end
	given     map[WantID]InstanceID
	since     map[WantID]time.Time
	instances map[InstanceID]*lived
	cancelled map[WantID]bool
	last      WantID
}

type lived struct {
	kind      Kind
	by        Isolation
	holders   map[string]bool // that it has served
	principal string
	up, ends  bool
	replaced  bool // an operator wants another one
	served    int
}

func (w *world) fail(format string, args ...any) {
	w.t.Helper()
	for _, line := range w.log[max(0, len(w.log)-60):] {
		w.t.Log(line)
	}
	w.t.Fatalf(format, args...)
}

// do notes what the pool wants, and judges it.
func (w *world) do(what string, effects []Effect) {
	w.log = append(w.log, fmt.Sprintf("%v %s: %s", w.now.Sub(at(0)), what, show(effects)))
	for _, e := range effects {
		switch e := e.(type) {
		case Start:
			if w.instances[e.Instance] != nil {
				w.fail("instance %d begins twice", e.Instance)
			}
			w.instances[e.Instance] = &lived{kind: e.Kind, by: w.of[e.Kind.Backend].Isolation, holders: map[string]bool{}}
			if e.Holder != "" {
				w.needed(e)
				w.instances[e.Instance].holders[e.Holder] = true
				w.instances[e.Instance].principal = e.Holder // as all holders here are principals
			}
		case Give:
			w.giveTo(e)
		case Refuse:
			if _, ok := w.wants[e.Want]; !ok || w.given[e.Want] != 0 {
				w.fail("want %d is refused, and is over or was given an instance", e.Want)
			}
			delete(w.wants, e.Want)
		case Stop:
			in := w.instances[e.Instance]
			if in == nil || in.ends {
				w.fail("instance %d is stopped, and is gone or stopped", e.Instance)
			}
			in.ends = true
		case Ping:
			if in := w.instances[e.Instance]; in == nil || !in.up || in.ends {
				w.fail("instance %d is asked whether it lives, and does not", e.Instance)
			}
			if w.r.IntN(8) > 0 {
				w.p.HeardFrom(w.now, e.Instance)
			}
		case Lost:
			for _, id := range e.Wants {
				if w.given[id] != e.Instance {
					w.fail("want %d is lost with %d, which it does not have", id, e.Instance)
				}
				delete(w.wants, id)
				delete(w.given, id)
			}
		}
	}
	w.judge()
}

// needed judges whether a holder needs one more instance: each of its own is gone, starts, or may ask somebody.
func (w *world) needed(e Start) {
	for id, in := range w.instances {
		if id == e.Instance || in.kind != e.Kind || !in.holders[e.Holder] || !in.up || in.ends || in.replaced {
			continue
		}
		busy := false
		for want, on := range w.given {
			busy = busy || on == id && (w.wants[want].Askable || w.cancelled[want])
		}
		if !busy {
			w.fail("%s has instance %d, and gets %d", e.Holder, id, e.Instance)
		}
	}
}

func (w *world) giveTo(e Give) {
	x, ok := w.wants[e.Want]
	in := w.instances[e.Instance]
	switch {
	case !ok || w.given[e.Want] != 0:
		w.fail("want %d gets an instance, and is over or has one", e.Want)
	case in == nil || !in.up || in.ends:
		w.fail("want %d gets %d, which does not run", e.Want, e.Instance)
	case in.replaced:
		w.fail("want %d gets %d, which another one is to replace", e.Want, e.Instance)
	case in.kind != x.Kind:
		w.fail("want %d gets an instance of another kind", e.Want)
	}
	if x.Looks {
		w.given[e.Want] = e.Instance
		return
	}
	in.served++
	switch in.by {
	case ByCall:
		in.principal = x.Principal
		if in.served > 1 {
			w.fail("instance %d serves a second call", e.Instance)
		}
	case Shared:
	default:
		in.holders[x.Holder] = true
		if in.principal == "" {
			in.principal = x.Principal
		}
		if len(in.holders) > 1 {
			w.fail("instance %d serves two holders", e.Instance)
		}
	}
	if x.Askable {
		for id, other := range w.given {
			if other == e.Instance && w.wants[id].Askable {
				w.fail("instance %d may ask two calls at once", e.Instance)
			}
		}
	}
	w.given[e.Want] = e.Instance
}

// judge holds the bounds.
func (w *world) judge() {
	count, mine := map[string]int{}, map[string]int{}
	starts := 0
	for _, in := range w.instances {
		if in.principal != "" {
			mine[in.kind.Backend+" of "+in.principal]++
			if mine[in.kind.Backend+" of "+in.principal] > w.of[in.kind.Backend].PerPrincipal {
				w.fail("%s has more instances of %s than it may", in.principal, in.kind.Backend)
			}
		}
		count[in.kind.Backend]++
		if !in.up && !in.ends {
			starts++
		}
	}
	if len(w.instances) > w.size.Instances || starts > w.size.Starts {
		w.fail("%d instances, %d of which start", len(w.instances), starts)
	}
	waiting := map[string]int{}
	for id, x := range w.wants {
		if w.given[id] == 0 {
			waiting[x.Kind.Backend]++
			if most := w.of[x.Kind.Backend].StartTimeout; w.now.Sub(w.since[id]) > most+2*time.Second {
				w.fail("want %d has waited for longer than %v", id, most)
			}
		}
	}
	for name, t := range w.of {
		if count[name] > t.Max || waiting[name] > t.Queue {
			w.fail("backend %s has %d instances and %d that wait", name, count[name], waiting[name])
		}
	}
}

// step has something happen.
func (w *world) step() {
	w.now = w.now.Add(time.Duration(w.r.IntN(1000)) * time.Millisecond)
	instance := func(good func(*lived) bool) InstanceID {
		var ids []InstanceID
		for id, in := range w.instances {
			if good(in) {
				ids = append(ids, id)
			}
		}
		slices.Sort(ids)
		if len(ids) == 0 {
			return 0
		}
		return ids[w.r.IntN(len(ids))]
	}
	switch n := w.r.IntN(20); {
	case n < 6:
		w.last++
		name := []string{"a", "b"}[w.r.IntN(2)]
		who := []string{"ann", "bob", "cy"}[w.r.IntN(3)]
		x := Want{ID: w.last, Kind: Kind{name, "1", []string{"", "asks"}[w.r.IntN(2)]}, Principal: who, Askable: w.r.IntN(3) == 0}
		if by := w.of[name].Isolation; by == BySession || by == ByPrincipal {
			x.Holder = who
		}
		if w.r.IntN(6) == 0 {
			x.Looks, x.Holder, x.Principal, x.Askable = true, "", "", false
		}
		w.wants[x.ID], w.since[x.ID] = x, w.now
		w.do(fmt.Sprintf("want %+v", x), w.p.Want(w.now, x))
	case n < 10:
		if id := instance(func(in *lived) bool { return !in.up && !in.ends }); id != 0 {
			if w.r.IntN(6) == 0 {
				delete(w.instances, id)
				w.do(fmt.Sprint("failed ", id), w.p.StartFailed(w.now, id, "no"))
				return
			}
			w.instances[id].up = true
			w.do(fmt.Sprint("ready ", id), w.p.InstanceReady(w.now, id))
		}
	case n < 14:
		var ids []WantID
		for id := range w.given {
			ids = append(ids, id)
		}
		if slices.Sort(ids); len(ids) > 0 {
			id := ids[w.r.IntN(len(ids))]
			if w.r.IntN(6) == 0 {
				w.cancelled[id] = true
				w.p.CallCancelled(w.now, id)
				return
			}
			delete(w.given, id)
			delete(w.wants, id)
			w.do(fmt.Sprint("done ", id), w.p.CallEnded(w.now, id))
		}
	case n < 16:
		if id := instance(func(in *lived) bool { return in.ends }); id != 0 {
			delete(w.instances, id)
			w.do(fmt.Sprint("exited ", id), w.p.InstanceExited(w.now, id, ""))
		}
	case n < 17:
		if id := instance(func(in *lived) bool { return in.up && !in.ends }); id != 0 {
			if w.r.IntN(2) == 0 {
				w.instances[id].ends = true
				w.do(fmt.Sprint("breaks ", id), w.p.InstanceBroke(w.now, id, "broke"))
				return
			}
			delete(w.instances, id)
			w.do(fmt.Sprint("dies ", id), w.p.InstanceExited(w.now, id, "died"))
		}
	case n < 18:
		for id := range w.wants {
			if w.given[id] == 0 {
				delete(w.wants, id)
				w.do(fmt.Sprint("withdraw ", id), w.p.Withdraw(w.now, id))
				return
			}
		}
	case n < 19 && w.r.IntN(3) == 0:
		w.restart([]string{"a", "b"}[w.r.IntN(2)], w.r.IntN(2) == 0)
	default:
		w.do("tick", w.p.Tick(w.now))
	}
}

// restart has an operator restart a backend.
func (w *world) restart(name string, atOnce bool) {
	_, ok, todo := RestartBackend(w.p, w.now, name, atOnce)
	if !ok {
		w.fail("backend %s is unknown", name)
	}
	for _, in := range w.instances {
		in.replaced = in.replaced || in.kind.Backend == name
	}
	w.do(fmt.Sprintf("restart %s, at once: %t", name, atOnce), todo)
}

// settle has all that runs end, after which nothing may be left.
func (w *world) settle() {
	for i := 0; w.p.Busy(); i++ {
		if i > 200 {
			w.fail("something is left: %d instances, %d wants", len(w.p.instances), len(w.p.wants))
		}
		for id, in := range w.instances {
			switch {
			case in.ends:
				delete(w.instances, id)
				w.do(fmt.Sprint("exited ", id), w.p.InstanceExited(w.now, id, ""))
			case !in.up:
				in.up = true
				w.do(fmt.Sprint("ready ", id), w.p.InstanceReady(w.now, id))
			}
		}
		for id := range w.given {
			delete(w.given, id)
			delete(w.wants, id)
			w.do(fmt.Sprint("done ", id), w.p.CallEnded(w.now, id))
		}
		w.now = w.now.Add(time.Second)
		w.do("tick", w.p.Tick(w.now))
	}
	if len(w.wants) > 0 {
		w.fail("%d wants had no end", len(w.wants))
	}
	for name, b := range w.p.backends {
		if b.count != 0 || b.starting != 0 || b.waiting != 0 || len(b.queues) != 0 || len(b.turns) != 0 || len(b.perPrincipal) != 0 || len(b.instances) != 0 {
			w.fail("backend %s keeps something: %+v", name, b)
		}
	}
	if w.p.starting != 0 {
		w.fail("%d start", w.p.starting)
	}
}

// TestHistories holds the pool to its promises in random histories: no instance serves two holders, or two calls that it may
// ask; the bounds hold; each want has one end, and none waits for longer than it may; nothing is left.
func TestHistories(t *testing.T) {
	seed := rand.Uint64()
	t.Logf("seed %d", seed)
	for n := range *histories {
		r := rand.New(rand.NewPCG(seed, uint64(n)))
		w := &world{t: t, r: r, now: at(0), of: map[string]Terms{}, size: Bounds{Instances: 3 + r.IntN(4), Starts: 1 + r.IntN(3)}, wants: map[WantID]Want{}, given: map[WantID]InstanceID{}, since: map[WantID]time.Time{}, instances: map[InstanceID]*lived{}, cancelled: map[WantID]bool{}}
		w.p = New(w.size)
		for _, name := range []string{"a", "b"} {
			of := usual
			of.Isolation, of.Warm = Isolation(r.IntN(4)), r.IntN(3)
			of.PerPrincipal = 1 + r.IntN(3)
			of.MaxLife = time.Duration(r.IntN(2)) * time.Minute
			w.of[name] = of
			w.do("configure "+name, w.p.ConfigureBackend(w.now, name, "1", of))
		}
		ticked := w.now
		for range 400 {
			w.step()
			if w.now.Sub(ticked) > time.Second {
				ticked = w.now
				w.do("tick", w.p.Tick(w.now))
			}
		}
		w.settle()
	}
}

func BenchmarkWant(b *testing.B) {
	p := New(Bounds{})
	p.ConfigureBackend(at(0), "files", "1", Terms{})
	for n := range 1000 {
		who := fmt.Sprint(n)
		p.Want(at(0), Want{ID: WantID(n + 1), Kind: files, Holder: who, Principal: who})
		p.InstanceReady(at(0), InstanceID(n+1))
		p.CallEnded(at(0), WantID(n+1))
	}
	x := Want{ID: 2000, Kind: files, Holder: "7", Principal: "7"}
	b.ReportAllocs()
	for b.Loop() {
		p.Want(at(0), x)
		p.CallEnded(at(0), x.ID)
	}
}
