package pool

import (
	"fmt"
	"reflect"
	"strings"
	"testing"
	"time"
)

// at is a moment of a test, so many seconds after its beginning.
func at(seconds float64) time.Time {
	return time.Unix(1_000_000, 0).Add(time.Duration(seconds * float64(time.Second)))
}

var files = Kind{Backend: "files", Digest: "1", Client: "none"}

// usual are terms with small numbers.
var usual = Terms{Max: 4, PerPrincipal: 3, Queue: 3, StartTimeout: 10 * time.Second, Idle: 30 * time.Second, PingEvery: 5 * time.Second, PingWait: 2 * time.Second, CancelWait: 5 * time.Second}

func newPool(t *testing.T, of Terms, bounds Bounds) *Pool {
	t.Helper()
	p := New(bounds)
	expect(t, p.ConfigureBackend(at(0), "files", "1", of))
	return p
}

func of(id WantID, holder string) Want {
	return Want{ID: id, Kind: files, Holder: holder, Principal: strings.TrimSuffix(holder, "'s")}
}

func expect(t *testing.T, got []Effect, want ...Effect) {
	t.Helper()
	if len(got) == 0 && len(want) == 0 || reflect.DeepEqual(got, want) {
		return
	}
	t.Fatalf("effects:\n got %s\nwant %s", show(got), show(want))
}

func show(all []Effect) string {
	var b strings.Builder
	for _, e := range all {
		fmt.Fprintf(&b, "%T%+v ", e, e)
	}
	return b.String()
}

// TestLooksBindNothing has an instance that was only looked at serve whoever comes next, and end if nobody comes.
func TestLooksBindNothing(t *testing.T) {
	for _, by := range []Isolation{BySession, ByPrincipal, ByCall} {
		terms := usual
		terms.Isolation, terms.Idle = by, 0
		p := newPool(t, terms, Bounds{})
		expect(t, p.Want(at(1), Want{ID: 1, Kind: files, Looks: true}), Start{Instance: 1, Kind: files})
		expect(t, p.InstanceReady(at(2), 1), Give{1, 1})
		expect(t, p.CallEnded(at(3), 1))
		want := of(2, "ann")
		if by == ByCall {
			want.Holder = ""
		}
		expect(t, p.Want(at(4), want), Give{2, 1})
		expect(t, p.Want(at(5), Want{ID: 3, Kind: files, Looks: true}), Start{Instance: 2, Kind: files})
		expect(t, p.InstanceReady(at(6), 2), Give{3, 2})
		expect(t, p.CallEnded(at(7), 3))
		p.HeardFrom(at(66), 1)
		p.HeardFrom(at(66), 2)
		expect(t, p.Tick(at(66.5)))
		expect(t, p.Tick(at(67)), Stop{2, Unused})
	}
}

func TestOneInstanceForAHolder(t *testing.T) {
	p := newPool(t, usual, Bounds{})
	expect(t, p.Want(at(1), of(1, "ann")), Start{1, files, "ann", "ann"})
	expect(t, p.Want(at(1), of(2, "ann"))) // it will have the same
	expect(t, p.InstanceReady(at(2), 1), Give{1, 1}, Give{2, 1})
	expect(t, p.Want(at(3), of(3, "bob")), Start{2, files, "bob", "bob"})
	expect(t, p.InstanceReady(at(4), 2), Give{3, 2})
	expect(t, p.CallEnded(at(4), 1))
	expect(t, p.Want(at(5), of(4, "ann")), Give{4, 1})
	expect(t, p.HolderGone(at(6), "ann", Left), Stop{1, Left})
	expect(t, p.InstanceExited(at(6), 1, ""), Lost{Instance: 1, Kind: files, Holder: "ann", Reason: Left, Wants: []WantID{2, 4}})
}

func TestAskableWantsAreApart(t *testing.T) {
	p := newPool(t, usual, Bounds{})
	ask := func(id WantID) Want { w := of(id, "ann"); w.Askable = true; return w }
	expect(t, p.Want(at(1), ask(1)), Start{1, files, "ann", "ann"})
	expect(t, p.Want(at(1), ask(2)), Start{2, files, "ann", "ann"})
	expect(t, p.InstanceReady(at(2), 1), Give{1, 1})
	expect(t, p.Want(at(2), of(3, "ann")), Give{3, 1}) // whoever waits could not have it
	expect(t, p.InstanceReady(at(2), 2), Give{2, 2})
	expect(t, p.Want(at(3), of(4, "ann")), Give{4, 1}) // what asks nothing is served beside it
	expect(t, p.Want(at(3), ask(5)), Start{3, files, "ann", "ann"})
	expect(t, p.Want(at(3), ask(6))) // three for one principal
	expect(t, p.CallEnded(at(4), 1), Give{5, 1})
	expect(t, p.CallEnded(at(4), 2), Give{6, 2})
}

func TestAnInstanceForEachCall(t *testing.T) {
	of1 := usual
	of1.Isolation, of1.Warm = ByCall, 1
	p := newPool(t, of1, Bounds{})
	expect(t, p.Want(at(1), of(1, "")), Start{1, files, "", ""})
	expect(t, p.InstanceReady(at(2), 1), Give{1, 1}, Start{2, files, "", ""}) // and a spare
	expect(t, p.InstanceReady(at(3), 2))
	expect(t, p.Want(at(4), of(2, "")), Give{2, 2}, Start{3, files, "", ""})
	expect(t, p.CallEnded(at(5), 1), Stop{1, Spent})
	expect(t, p.InstanceExited(at(5), 1, ""))
}

func TestSharedByAll(t *testing.T) {
	shared := usual
	shared.Isolation = Shared
	p := newPool(t, shared, Bounds{})
	expect(t, p.Want(at(1), of(1, "")), Start{1, files, "", ""})
	expect(t, p.InstanceReady(at(2), 1), Give{1, 1})
	expect(t, p.Want(at(3), of(2, "")), Give{2, 1})
	asks := of(3, "")
	asks.Askable = true
	expect(t, p.Want(at(3), asks), Give{3, 1})
	asks.ID = 4
	expect(t, p.Want(at(3), asks), Start{2, files, "", ""})
}

func TestPrincipalsTakeTurns(t *testing.T) {
	one := usual
	one.Max, one.PerPrincipal, one.Queue, one.Isolation = 1, 0, 9, ByCall
	p := newPool(t, one, Bounds{})
	who := func(id WantID, name string) Want { return Want{ID: id, Kind: files, Principal: name} }
	expect(t, p.Want(at(1), who(1, "ann")), Start{1, files, "", "ann"})
	for id := WantID(2); id < 5; id++ {
		expect(t, p.Want(at(1), who(id, "ann")))
	}
	expect(t, p.Want(at(1), who(5, "bob")))
	var order []WantID
	for n := InstanceID(1); n <= 5; n++ {
		for _, e := range p.InstanceReady(at(2), n) {
			order = append(order, e.(Give).Want)
		}
		expect(t, p.CallEnded(at(2), order[len(order)-1]), Stop{n, Spent})
		p.InstanceExited(at(2), n, "")
	}
	if bob := reflect.ValueOf(order[:2]); order[0] != 5 && order[1] != 5 {
		t.Fatalf("bob's one call was served after those of ann: %v of %v", bob, order)
	}
}

// TestOwnInstanceHasNoQueue: who has an instance is served by it, however many wait for one.
func TestOwnInstanceHasNoQueue(t *testing.T) {
	one := usual
	one.Max, one.Queue = 1, 1
	p := newPool(t, one, Bounds{})
	expect(t, p.Want(at(1), of(1, "ann")), Start{1, files, "ann", "ann"})
	expect(t, p.InstanceReady(at(1), 1), Give{1, 1})
	expect(t, p.Want(at(2), of(2, "bob")))
	expect(t, p.Want(at(2), of(3, "cy")), Refuse{Want: 3, Reason: QueueFull})
	expect(t, p.Want(at(2), of(4, "ann")), Give{4, 1})
}

// TestNodeIsFull: who has waited for the room of other backends is told apart from who has waited for that of its own.
func TestNodeIsFull(t *testing.T) {
	one := usual
	one.Max, one.PingEvery = 1, 0
	for bound, want := range map[int]Reason{1: NodeFull, 2: NoRoom} {
		p := newPool(t, one, Bounds{Instances: bound})
		expect(t, p.Want(at(1), of(1, "ann")), Start{1, files, "ann", "ann"})
		expect(t, p.InstanceReady(at(1), 1), Give{1, 1})
		expect(t, p.Want(at(2), of(2, "bob")))
		expect(t, p.Tick(at(12)), Refuse{Want: 2, Reason: want})
	}
}

// TestShut: from the end of the node on nothing begins, whoever waits and however many spares there should be, and no holder has
// lost what the next process has.
func TestShut(t *testing.T) {
	warm := usual
	warm.Warm, warm.Max = 1, 3
	p := newPool(t, warm, Bounds{})
	expect(t, p.Want(at(1), of(1, "ann")), Start{1, files, "ann", "ann"})
	expect(t, p.InstanceReady(at(1), 1), Give{1, 1}, Start{2, files, "", ""})
	expect(t, p.InstanceReady(at(1), 2))
	expect(t, p.Want(at(2), of(2, "bob")), Give{2, 2}, Start{3, files, "", ""})
	expect(t, p.Want(at(2), of(3, "cy")))
	expect(t, p.Shut(func(id InstanceID) bool { return id == 1 }), Refuse{Want: 3, Reason: Closed}, Stop{1, Kept}, Stop{2, Closed}, Stop{3, Closed})
	expect(t, p.InstanceExited(at(3), 1, ""))
	expect(t, p.InstanceExited(at(3), 2, ""), Lost{Instance: 2, Kind: files, Holder: "bob", Reason: Closed, Wants: []WantID{2}})
	expect(t, p.Want(at(3), of(4, "ann")), Refuse{Want: 4, Reason: Closed})
	expect(t, p.StartFailed(at(3), 3, ""))
	expect(t, p.Tick(at(4)))
	if p.Busy() {
		t.Error("something is left")
	}
}

func TestBreaker(t *testing.T) {
	p := newPool(t, usual, Bounds{})
	now, id := 1.0, InstanceID(0)
	for n := range WantID(openAfter) {
		id++
		expect(t, p.Want(at(now), of(n+1, "ann")), Start{id, files, "ann", "ann"})
		pause := min(firstPause<<n, mostPause)
		expect(t, p.StartFailed(at(now), id, "no such file"), Refuse{n + 1, FailedTo, "no such file", pause})
		now += pause.Seconds()
	}
	now -= 1
	if !p.backends["files"].faults.isBreakerOpen(at(now)) {
		t.Fatal("the breaker is not open")
	}
	expect(t, p.Want(at(now), of(10, "bob")), Refuse{10, Broken, "no such file", time.Second})
	now++
	expect(t, p.Want(at(now), of(11, "bob")), Start{6, files, "bob", "bob"}) // one try
	expect(t, p.Want(at(now), of(12, "ann")))
	expect(t, p.InstanceReady(at(now), 6), Give{11, 6}, Start{7, files, "ann", "ann"})
	expect(t, p.InstanceReady(at(now+1), 7), Give{12, 7})
	expect(t, p.Tick(at(now+61)))
	if p.backends["files"].faults.failures > 0 {
		t.Fatal("the breaker is open after a minute of life")
	}
}

func TestFirstFailureLetsLaterOnesWait(t *testing.T) {
	p := newPool(t, usual, Bounds{})
	expect(t, p.Want(at(1), of(1, "ann")), Start{1, files, "ann", "ann"})
	expect(t, p.InstanceReady(at(1), 1), Give{1, 1})
	expect(t, p.InstanceExited(at(2), 1, "exit status 1"), Lost{Instance: 1, Kind: files, Holder: "ann", Reason: Exited, Detail: "exit status 1", Wants: []WantID{1}})
	expect(t, p.Want(at(2), of(2, "ann"))) // for a second
	expect(t, p.Tick(at(3)), Start{2, files, "ann", "ann"})
	expect(t, p.InstanceReady(at(3), 2), Give{2, 2})
}

// TestExcused has an instance end by no fault of its backend, which starts again at once, and is as far from its breaker as before.
func TestExcused(t *testing.T) {
	for what, end := range map[string]func(p *Pool, id InstanceID) []Effect{
		"exited": func(p *Pool, id InstanceID) []Effect { return p.InstanceExited(at(2), id, "its keeper has ended") },
		"broke": func(p *Pool, id InstanceID) []Effect {
			return append(p.InstanceBroke(at(2), id, "its keeper has ended"), p.InstanceExited(at(2), id, "its keeper has ended")...)
		},
	} {
		p := newPool(t, usual, Bounds{})
		expect(t, p.Want(at(1), of(1, "ann")), Start{1, files, "ann", "ann"})
		expect(t, p.InstanceReady(at(1), 1), Give{1, 1})
		ExcuseInstance(p, 1)
		end(p, 1)
		expect(t, p.Want(at(2), of(2, "ann")), Start{2, files, "ann", "ann"})
		if row := p.backends["files"].faults.failures; row > 0 {
			t.Errorf("%s: %d failures", what, row)
		}
	}
}

func TestSlowStart(t *testing.T) {
	p := newPool(t, usual, Bounds{})
	expect(t, p.Want(at(1), of(1, "ann")), Start{1, files, "ann", "ann"})
	expect(t, p.Tick(at(10)))
	expect(t, p.Tick(at(11)), Refuse{1, TooSlow, "it was not ready within 10s", time.Second}, Stop{1, TooSlow})
	expect(t, p.InstanceReady(at(12), 1)) // too late
	expect(t, p.InstanceExited(at(12), 1, ""))
	if p.Busy() {
		t.Fatal("something is left")
	}
}

func TestInstancesEndWhenNobodyWantsThem(t *testing.T) {
	p := newPool(t, usual, Bounds{})
	expect(t, p.Want(at(1), of(1, "ann")), Start{1, files, "ann", "ann"})
	expect(t, p.InstanceReady(at(1), 1), Give{1, 1})
	expect(t, p.Tick(at(100))) // it serves
	expect(t, p.CallEnded(at(100), 1))
	p.HeardFrom(at(129), 1)
	expect(t, p.Tick(at(129)))
	expect(t, p.Tick(at(130)), Stop{1, Unused})
	expect(t, p.InstanceExited(at(130), 1, ""), Lost{Instance: 1, Kind: files, Holder: "ann", Reason: Unused})
}

func TestWedgedAndSuspect(t *testing.T) {
	p := newPool(t, usual, Bounds{})
	expect(t, p.Want(at(1), of(1, "ann")), Start{1, files, "ann", "ann"})
	expect(t, p.InstanceReady(at(1), 1), Give{1, 1})
	expect(t, p.Tick(at(20))) // whoever serves is not asked
	expect(t, p.CallEnded(at(20), 1))
	expect(t, p.Tick(at(20)), Ping{1})
	expect(t, p.Tick(at(21)))
	p.HeardFrom(at(21), 1)
	expect(t, p.Tick(at(22)))
	expect(t, p.Tick(at(26)), Ping{1})
	expect(t, p.Tick(at(28)), Stop{1, Wedged})
	expect(t, p.InstanceExited(at(28), 1, ""), Lost{Instance: 1, Kind: files, Holder: "ann", Reason: Wedged})

	expect(t, p.Want(at(30), of(2, "ann")), Start{2, files, "ann", "ann"})
	expect(t, p.InstanceReady(at(30), 2), Give{2, 2})
	expect(t, p.Want(at(30), of(3, "ann")), Give{3, 2})
	p.CallCancelled(at(31), 2)
	expect(t, p.Tick(at(36)))                                              // 3 is still served
	expect(t, p.Want(at(36), of(4, "ann")), Start{3, files, "ann", "ann"}) // and nobody else
	expect(t, p.CallEnded(at(37), 3))                                      //
	expect(t, p.Tick(at(37)), Stop{2, Suspect})                            //
	expect(t, p.InstanceExited(at(37), 2, ""), Lost{Instance: 2, Kind: files, Holder: "ann", Reason: Suspect, Wants: []WantID{2}})
}

// TestNoLongerSuspect gives an instance again as soon as the call has ended that somebody else could have been asked for.
func TestNoLongerSuspect(t *testing.T) {
	terms := usual
	terms.PerPrincipal = 1
	p := newPool(t, terms, Bounds{})
	expect(t, p.Want(at(1), of(1, "ann")), Start{1, files, "ann", "ann"})
	expect(t, p.InstanceReady(at(1), 1), Give{1, 1})
	expect(t, p.Want(at(1), of(2, "ann")), Give{2, 1})
	p.CallCancelled(at(2), 1)
	expect(t, p.Tick(at(7)))
	expect(t, p.Want(at(7), of(3, "ann")))
	expect(t, p.CallEnded(at(7), 1), Give{3, 1})
}

func TestConfiguredOtherwise(t *testing.T) {
	p := newPool(t, usual, Bounds{})
	expect(t, p.Want(at(1), of(1, "ann")), Start{1, files, "ann", "ann"})
	expect(t, p.InstanceReady(at(1), 1), Give{1, 1})
	expect(t, p.ConfigureBackend(at(2), "files", "2", usual))
	expect(t, p.Want(at(2), of(2, "ann")), Refuse{Want: 2, Reason: Replaced})
	expect(t, p.CallEnded(at(3), 1), Stop{1, Replaced})
	newer := files
	newer.Digest = "2"
	expect(t, p.Want(at(3), Want{ID: 3, Kind: newer, Holder: "ann", Principal: "ann"}), Start{2, newer, "ann", "ann"})
}

// TestLowerBounds: when a bound was lowered, instances beyond it end that serve no call: spares first, and then those that have rested longest. What serves
// ends with its call, and what was used just now a little later.
func TestLowerBounds(t *testing.T) {
	wide := usual
	wide.PingEvery = 0
	p := newPool(t, wide, Bounds{})
	for id, who := range []string{"ann", "bob", "cy"} {
		expect(t, p.Want(at(1), of(WantID(id+1), who)), Start{InstanceID(id + 1), files, who, who})
		expect(t, p.InstanceReady(at(1), InstanceID(id+1)), Give{WantID(id + 1), InstanceID(id + 1)})
	}
	expect(t, p.Want(at(1), Want{ID: 4, Kind: files, Looks: true}), Start{Instance: 4, Kind: files})
	expect(t, p.InstanceReady(at(1), 4), Give{4, 4})
	expect(t, p.CallEnded(at(2), 3))
	expect(t, p.CallEnded(at(3), 2))
	expect(t, p.CallEnded(at(4), 4))
	narrow := wide
	narrow.Max = 2
	expect(t, p.ConfigureBackend(at(8), "files", "1", narrow))
	expect(t, p.Tick(at(8)), Stop{4, Surplus}, Stop{3, Surplus})
	narrow.Max = 1
	expect(t, p.Want(at(9), of(5, "bob")), Give{5, 2})
	expect(t, p.ConfigureBackend(at(9), "files", "1", narrow))
	expect(t, p.CallEnded(at(9), 5))
	expect(t, p.Tick(at(10)))
	expect(t, p.Tick(at(11)), Stop{2, Surplus})
	expect(t, p.InstanceExited(at(11), 2, ""), Lost{Instance: 2, Kind: files, Holder: "bob", Reason: Surplus})
	expect(t, p.Tick(at(12))) // the last one serves, and is no more than there may be
}

// TestLowerBoundOfPrincipals: the bound for one principal holds for those that it has already.
func TestLowerBoundOfPrincipals(t *testing.T) {
	wide := usual
	wide.PingEvery = 0
	p := newPool(t, wide, Bounds{})
	for id := WantID(1); id <= 2; id++ {
		w := of(id, "ann")
		w.Askable = true
		expect(t, p.Want(at(1), w), Start{InstanceID(id), files, "ann", "ann"})
		expect(t, p.InstanceReady(at(1), InstanceID(id)), Give{id, InstanceID(id)})
	}
	expect(t, p.CallEnded(at(2), 1))
	expect(t, p.CallEnded(at(3), 2))
	wide.PerPrincipal = 1
	expect(t, p.ConfigureBackend(at(6), "files", "1", wide))
	expect(t, p.Tick(at(6)), Stop{1, Surplus})
}

func TestRoomOnTheNode(t *testing.T) {
	p := newPool(t, usual, Bounds{Instances: 2, Starts: 1})
	warm := usual
	warm.Warm = 1
	p.ConfigureBackend(at(0), "warm", "1", warm)
	spare := Kind{Backend: "warm", Digest: "1"}
	expect(t, p.Want(at(1), Want{ID: 1, Kind: spare, Holder: "bob", Principal: "bob"}), Start{1, spare, "bob", "bob"})
	expect(t, p.InstanceReady(at(2), 1), Give{1, 1}, Start{2, spare, "", ""})
	expect(t, p.Want(at(2), of(2, "ann"))) // there is no room, and what starts is not a spare yet
	expect(t, p.InstanceReady(at(3), 2), Stop{2, Evicted})
	expect(t, p.InstanceExited(at(3), 2, ""), Start{3, files, "ann", "ann"}) // and not another spare
	expect(t, p.InstanceReady(at(4), 3), Give{2, 3})
}

// TestRestart: those that serve nobody end at once, the others when their calls have, and whoever comes meanwhile gets new ones.
func TestRestart(t *testing.T) {
	p := newPool(t, usual, Bounds{})
	restart := func(seconds float64, atOnce bool, want Restart, todo ...Effect) {
		t.Helper()
		did, ok, got := RestartBackend(p, at(seconds), "files", atOnce)
		if !ok || did != want {
			t.Errorf("the restart has done %+v, %t, want %+v", did, ok, want)
		}
		expect(t, got, todo...)
	}
	expect(t, p.Want(at(1), of(1, "ann")), Start{1, files, "ann", "ann"})
	expect(t, p.Want(at(1), of(2, "bob")), Start{2, files, "bob", "bob"})
	expect(t, p.InstanceReady(at(2), 1), Give{1, 1})
	expect(t, p.InstanceReady(at(2), 2), Give{2, 2})
	expect(t, p.CallEnded(at(3), 2))
	expect(t, p.Want(at(3), of(3, "cy")), Start{3, files, "cy", "cy"})
	restart(4, false, Restart{Ended: 2, Ending: 1, Calls: 1}, Stop{2, Restarted}, Stop{3, Restarted}, Start{4, files, "cy", "cy"})
	expect(t, p.StartFailed(at(4), 3, "ended"))
	expect(t, p.InstanceExited(at(4), 2, ""), Lost{Instance: 2, Kind: files, Holder: "bob", Reason: Restarted})
	expect(t, p.InstanceReady(at(5), 4), Give{3, 4})
	expect(t, p.Want(at(5), of(4, "ann")), Start{5, files, "ann", "ann"})
	expect(t, p.InstanceReady(at(6), 5), Give{4, 5})
	if r := p.Reports(at(6))["files"]; len(r.Instances) != 3 || r.Instances[0] != (Instance{1, Serving, 1, true}) || r.Instances[1] != (Instance{4, Serving, 1, false}) || r.Serving != 3 {
		t.Errorf("the report is %+v", r)
	}
	expect(t, p.CallEnded(at(7), 1), Stop{1, Restarted})
	expect(t, p.InstanceExited(at(7), 1, ""), Lost{Instance: 1, Kind: files, Holder: "ann", Reason: Restarted})
	restart(8, true, Restart{Ended: 2, Calls: 2}, Stop{4, Restarted}, Stop{5, Restarted})
	expect(t, p.InstanceExited(at(8), 4, ""), Lost{Instance: 4, Kind: files, Holder: "cy", Reason: Restarted, Wants: []WantID{3}})
	restart(8, true, Restart{}) // the other one ends already
	if _, ok, _ := RestartBackend(p, at(9), "unknown", false); ok {
		t.Error("a backend that there is not was restarted")
	}
}

// TestRestartAtOnceEndsWhatARestartHasLeft: an operator who is tired of waiting ends the rest.
func TestRestartAtOnceEndsWhatARestartHasLeft(t *testing.T) {
	p := newPool(t, usual, Bounds{})
	p.Want(at(1), of(1, "ann"))
	p.InstanceReady(at(1), 1)
	if did, _, todo := RestartBackend(p, at(2), "files", false); did.Ending != 1 || len(todo) != 0 {
		t.Errorf("the first has done %+v", did)
	}
	_, _, todo := RestartBackend(p, at(3), "files", true)
	expect(t, todo, Stop{1, Restarted})
}

// TestRestartClosesTheBreaker: who has mended a backend need not wait until it is tried again.
func TestRestartClosesTheBreaker(t *testing.T) {
	p := newPool(t, usual, Bounds{})
	now := 1.0
	for n := range InstanceID(5) {
		expect(t, p.Want(at(now), of(WantID(n+1), "ann")), Start{n + 1, files, "ann", "ann"})
		p.StartFailed(at(now), n+1, "no such file")
		now += 30
	}
	now -= 29
	if r := p.Reports(at(now))["files"]; !r.Open || r.Failures != 5 || r.Detail != "no such file" || !r.Until.After(at(now)) {
		t.Errorf("the report is %+v", r)
	}
	if todo := p.Want(at(now), of(9, "ann")); len(todo) != 1 || todo[0].(Refuse).Reason != Broken {
		t.Errorf("with the breaker open: %s", show(todo))
	}
	if did, _, todo := RestartBackend(p, at(now), "files", false); did != (Restart{Failures: 5, Opened: true, Detail: "no such file"}) || len(todo) != 0 {
		t.Errorf("the restart has done %+v, and wants %s", did, show(todo))
	}
	expect(t, p.Want(at(now), of(10, "ann")), Start{6, files, "ann", "ann"})
}
