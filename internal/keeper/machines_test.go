package keeper

import (
	"errors"
	"fmt"
	"slices"
	"strings"
	"testing"
	"time"
)

var noon = time.Date(2026, 1, 1, 12, 0, 0, 0, time.UTC)

// TestStopping has what is done, and when, by how a process behaves. Times are milliseconds after it is asked to end.
func TestStopping(t *testing.T) {
	t.Parallel()
	names := map[stopAct]string{actCloseInput: "eof", actTerminate: "term", actKill: "kill", actFinish: "gone"}
	for _, row := range []struct {
		name         string
		exits, alone int // when the process is reaped, and when nobody of its family is left
		asked        bool
		want         string
	}{
		{"ends with its input", 100, 100, true, "0 eof, 100 gone"},
		{"ends at SIGTERM", 2100, 2100, true, "0 eof, 2000 term, 2100 gone"},
		{"is killed", 3010, 3010, true, "0 eof, 2000 term, 3000 kill, 3010 gone"},
		{"leaves somebody, who is killed", 100, 1110, true, "0 eof, 500 term, 1000 kill, .. 1110 gone"},
		{"ends by itself", 0, 0, false, "0 eof, 0 gone"},
		{"ends by itself and leaves somebody", 0, 505, false, "0 eof, 500 term, 510 gone"},
	} {
		s := stopping{grace: 2 * time.Second, term: time.Second}
		if act, _ := s.step(noon, 5); act != actWait || s.stage != stageRunning {
			t.Errorf("%s: it does %v before it is asked", row.name, act)
		}
		if row.asked && (!s.beginEnd(noon) || s.beginEnd(noon)) {
			t.Errorf("%s: asked once is not once", row.name)
		}
		if row.exits == 0 {
			s.markExited(noon)
		}
		var got []string
		for ms := 0; s.stage != stageGone && ms < 10_000; {
			now := noon.Add(time.Duration(ms) * time.Millisecond)
			left := 1
			if ms >= row.alone {
				left = 0
			}
			act, wait := s.step(now, left)
			if act != actWait {
				got = append(got, fmt.Sprint(ms, " ", names[act]))
			}
			next := ms + int(min(wait, 20*time.Second).Milliseconds())
			if !s.exited && next >= row.exits && ms < row.exits { // it is woken
				next = row.exits
				s.markExited(noon.Add(time.Duration(next) * time.Millisecond))
			}
			ms = next
		}
		if text := strings.Join(got, ", "); text != row.want && !similar(text, row.want) {
			t.Errorf("%s: %s, want %s", row.name, text, row.want)
		}
	}
}

// similar compares an account with one that has two points where anything may stand.
func similar(text, want string) bool {
	for part := range strings.SplitSeq(want, ".. ") {
		_, rest, found := strings.Cut(text, part)
		if !found {
			return false
		}
		text = rest
	}
	return text == ""
}

func TestCustody(t *testing.T) {
	t.Parallel()
	at := func(s int) time.Time { return noon.Add(time.Duration(s) * time.Second) }
	c := newCustody(30*time.Second, false, noon)
	due := func(s int, end bool, over ...uint64) {
		t.Helper()
		if got, e := c.takeExpired(at(s)); !slices.Equal(got, over) || e != end {
			t.Errorf("after %d s: %v, %v, want %v, %v", s, got, e, over, end)
		}
	}
	next := func(s int) {
		t.Helper()
		got, ok := c.nextExpiry()
		if want := at(s); s >= 0 && (!ok || !got.Equal(want)) || s < 0 && ok {
			t.Errorf("next is %v, %v, want %v", got, ok, want)
		}
	}
	due(29, false)
	next(30)
	one, old, err := c.connect("one", 0, false, at(29))
	if one != 1 || old != 0 || err != nil {
		t.Error(one, old, err)
	}
	due(100, false)
	next(-1)
	for handle := range uint64(3) {
		if err := c.hold(one, handle+1); err != nil {
			t.Error(err)
		}
	}
	two, old, err := c.connect("two", 0, false, at(100)) // the newest wins
	if two != 2 || old != 1 || err != nil {
		t.Error(two, old, err)
	}
	if _, _, err := c.connect("one", 0, true, at(100)); err == nil {
		t.Error("the one before comes again, and takes it back")
	}
	late := custody{lastClient: "two", wards: map[uint64]ward{}}
	for tries, want := range []error{nil, nil, nil, errNotOwner} { // 0 is of a client that counts none
		if _, _, err := late.connect("two", []uint64{0, 1, 3, 2}[tries], true, at(100)); !errors.Is(err, want) {
			t.Errorf("connection %d of a client: %v, want %v", tries, err, want)
		}
	}
	if err := c.hold(one, 1); err == nil {
		t.Error("the old one still holds")
	}
	c.leave(one, 0, at(101)) // which is nothing any more
	if err := c.hold(two, 1); err != nil {
		t.Error(err)
	}
	next(130)
	due(129, false)
	due(130, false, 2, 3)
	due(131, false) // once
	next(-1)
	c.drop(2)
	c.drop(3)
	c.abandon(4, at(190))
	c.bye(one, 0, at(200)) // which is nothing
	c.bye(two, 5*time.Second, at(200))
	next(205)
	due(204, false)
	due(205, false, 1, 4)
	c.drop(4)
	due(206, false) // not before it is gone
	c.drop(1)
	due(206, true)
	used := newCustody(time.Hour, false, noon) // which ends as soon as it has nobody and nothing
	three, _, _ := used.connect("three", 0, false, at(1))
	if err := used.hold(three, 1); err != nil {
		t.Error(err)
	}
	used.drop(1)
	if _, end := used.takeExpired(at(2)); end {
		t.Error("it ends while somebody has it")
	}
	used.leave(three, time.Hour, at(3))
	if at, ok := used.nextExpiry(); !ok || at.After(noon.Add(3*time.Second)) {
		t.Errorf("it has nobody and nothing, and waits until %v", at)
	}
	if _, end := used.takeExpired(at(3)); !end {
		t.Error("it has nobody and nothing, and stays")
	}
	stays := newCustody(time.Second, true, noon)
	if _, end := stays.takeExpired(at(1000)); end {
		t.Error("one that stays ends")
	}
	if _, ok := stays.nextExpiry(); ok {
		t.Error("one that stays waits for something")
	}
	stays.abandon(9, noon)
	if over, _ := stays.takeExpired(at(1)); !slices.Equal(over, []uint64{9}) {
		t.Errorf("it keeps %v", over)
	}
}

func TestComplaints(t *testing.T) {
	t.Parallel()
	var c complaints
	write := func(at time.Time, text string) {
		c.write([]byte(text), at, true)
	}
	taken := func() (lines, dropped int, last string) {
		for w, ok := c.takeNext(); ok; w, ok = c.takeNext() {
			lines++
			dropped += w.dropped
			last = string(w.text)
		}
		return lines, dropped, last
	}
	write(noon, "hal")
	if n, _, _ := taken(); n != 0 {
		t.Error("half a line is relayed")
	}
	write(noon, "f\r\n\n"+strings.Repeat("x", stderrLine+100))
	write(noon, strings.Repeat("x", 100)+"\nnext\n")
	if got := c.lastLines(); len(got) != 3 || got[0] != "half" || len(got[1]) != stderrLine || got[2] != "next" {
		t.Errorf("kept %d: %.50q", len(got), got)
	}
	if n, dropped, last := taken(); n != 3 || dropped != 0 || last != "next" {
		t.Error(n, dropped, last)
	}
	for i := range 1000 {
		write(noon, fmt.Sprintln("flood", i))
	}
	if n, _, last := taken(); n != stderrBurst-3 || last != "flood 196" {
		t.Errorf("relayed %d, the last is %q", n, last)
	}
	write(noon.Add(time.Second), "later\n")
	if n, dropped, last := taken(); n != 1 || dropped != 1000-(stderrBurst-3) || last != "later" {
		t.Error(n, dropped, last)
	}
	if got := c.lastLines(); len(got) != stderrTail || got[0] != "flood 981" || got[stderrTail-1] != "later" {
		t.Errorf("kept %q", got)
	}
	for i := range stderrQueued + 50 { // nobody takes them
		c.write(fmt.Appendln(nil, i), noon.Add(time.Hour).Add(time.Duration(i)*time.Second), true)
	}
	if n, _, _ := taken(); n != stderrQueued {
		t.Errorf("queued %d", n)
	}
	c.write([]byte("alone\n"), noon.Add(2*time.Hour), false)
	if n, _, _ := taken(); n != 0 {
		t.Error("relayed to nobody")
	}
}

func TestSpecs(t *testing.T) {
	t.Parallel()
	good := Spec{ID: "a", Command: []string{"x"}}
	if err := good.checkAndFill(); err != nil || good.Grace != defaultGrace || good.Term != defaultTerm {
		t.Error(err, good)
	}
	for want, change := range map[string]func(*Spec){
		"the id has 0 bytes":   func(s *Spec) { s.ID = "" },
		"the id has 257 bytes": func(s *Spec) { s.ID = strings.Repeat("x", 257) },
		"the note has":         func(s *Spec) { s.Note = strings.Repeat("x", maxNote+1) },
		"no command":           func(s *Spec) { s.Command = nil },
		"below zero":           func(s *Spec) { s.Term = -1 },
		"a byte of zero":       func(s *Spec) { s.Env = []string{"A=\x00"} },
		`"A", which is no`:     func(s *Spec) { s.Env = []string{"A"} },
		"is the keeper's":      func(s *Spec) { s.Env = []string{MarkName + "=x"} },
		`files: "maybe"`:       func(s *Spec) { s.Confine.Files = "maybe" },
	} {
		s := Spec{ID: "a", Command: []string{"x"}}
		change(&s)
		if err := s.checkAndFill(); err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("%v, want %s", err, want)
		}
	}
	for boot, ok := range map[string]bool{"": false, "a-b": false, "aB_9": true, strings.Repeat("a", 65): false, "a b": false} {
		if err := checkBoot(boot); (err == nil) != ok {
			t.Errorf("the boot %q: %v", boot, err)
		}
	}
}

// TestDescends has who is below a keeper while processes end, and while some are hidden.
func TestDescends(t *testing.T) {
	t.Parallel()
	const keeper = 10
	for _, row := range []struct {
		name string
		pid  int
		at   []string // what the system tells of each process, by the time: "child<parent"
		want bool
	}{
		// Those from 20 to 29 have badges.
		{"a child", 20, []string{"20<10"}, true},
		{"far below", 22, []string{"22<21", "21<20", "20<10"}, true},
		{"another's", 30, []string{"30<5", "5<1"}, false},
		{"itself", keeper, nil, true},
		{"unseen", 0, nil, false},
		{"ended, or hidden", 20, nil, true},
		{"another's, hidden", 30, nil, false},
		{"another's, its parent is hidden", 30, []string{"30<5", "", "30<5"}, false},
		{"far below, its parent is hidden", 22, []string{"22<21", "", "22<21"}, true},
		{"its parent ends meanwhile", 22, []string{"22<21", "", "22<10", "22<10"}, true},
		{"all end meanwhile", 22, []string{"22<21", "", "", ""}, true},
	} {
		told := row.at
		got := descendsFrom(row.pid, keeper, func(pid int) (procEntry, bool) {
			if len(told) == 0 {
				return procEntry{}, false
			}
			now := told[0]
			told = told[1:]
			var p procEntry
			if _, err := fmt.Sscanf(now, "%d<%d", &p.pid, &p.parent); err != nil || p.pid != pid {
				return procEntry{}, false
			}
			return p, true
		}, func(pid int) bool { return pid >= 20 && pid < 30 })
		if got != row.want || len(told) > 0 {
			t.Errorf("%s: %t, with %d left", row.name, got, len(told))
		}
	}
}

// TestFamilies has who belongs to whom. A process is written as its pid, parent, session and start.
func TestFamilies(t *testing.T) {
	t.Parallel()
	const keeper = 10
	all := func(rows ...[4]int) map[int]procEntry {
		m := map[int]procEntry{1: {pid: 1}, keeper: {pid: keeper, parent: 1, group: keeper, session: keeper, start: 1}}
		for _, r := range rows {
			m[r[0]] = procEntry{pid: r[0], parent: r[1], group: r[2], session: r[2], start: uint64(r[3])}
		}
		return m
	}
	for _, row := range []struct {
		name   string
		all    map[int]procEntry
		of     map[int]origin
		a, b   family
		wantA  []int
		wantB  []int
		strays []int
	}{
		{"children of children", all([4]int{20, 10, 20, 5}, [4]int{21, 20, 20, 6}, [4]int{22, 21, 22, 7}, [4]int{30, 10, 30, 8}, [4]int{99, 1, 99, 2}), nil, family{root: 20}, family{root: 30}, []int{20, 21, 22}, []int{30}, nil},
		{"an orphan of the session", all([4]int{20, 10, 20, 5}, [4]int{22, 10, 20, 7}, [4]int{23, 22, 23, 7}, [4]int{30, 10, 30, 8}), nil, family{root: 20}, family{root: 30}, []int{20, 22, 23}, []int{30}, nil},
		{"an orphan with a mark", all([4]int{20, 10, 20, 5}, [4]int{30, 10, 30, 6}, [4]int{22, 10, 22, 7}), map[int]origin{22: {mark: "B"}}, family{root: 20}, family{root: 30}, []int{20}, []int{22, 30}, nil},
		{"an orphan that was a child before", all([4]int{20, 10, 20, 5}, [4]int{30, 10, 30, 6}, [4]int{22, 10, 22, 7}), nil, family{root: 20, members: map[int]uint64{22: 7}}, family{root: 30}, []int{20, 22}, []int{30}, nil},
		{"another process has its pid", all([4]int{20, 10, 20, 5}, [4]int{30, 10, 30, 6}, [4]int{22, 10, 22, 9}), nil, family{root: 20, members: map[int]uint64{22: 7}}, family{root: 30}, []int{20}, []int{30}, nil},
		{"an orphan with a badge", all([4]int{20, 10, 20, 5}, [4]int{30, 10, 30, 6}, [4]int{22, 10, 22, 7}, [4]int{23, 22, 22, 7}), map[int]origin{22: {badge: 8}}, family{root: 20, badge: 8}, family{root: 30, badge: 7}, []int{20, 22, 23}, []int{30}, nil},
		{"one that says nothing waits", all([4]int{20, 10, 20, 5}, [4]int{30, 10, 30, 6}, [4]int{22, 10, 22, 7}), nil, family{root: 20}, family{root: 30}, []int{20}, []int{30}, nil},
		{"one of a family that is gone", all([4]int{20, 10, 20, 5}, [4]int{30, 10, 30, 6}, [4]int{22, 10, 22, 4}), map[int]origin{22: {"gone", 9}}, family{root: 20, badge: 8}, family{root: 30, badge: 7}, []int{20}, []int{30}, []int{22}},
		{"a reaped root's pid is another family's", all([4]int{20, 10, 20, 9}, [4]int{22, 10, 22, 7}), map[int]origin{22: {mark: "A"}}, family{root: 20, reaped: true, start: 5}, family{root: 20}, []int{22}, []int{20}, nil},
	} {
		a, b := row.a, row.b
		a.mark, b.mark = "A", "B"
		found := attribute(row.all, keeper, []*family{&a, &b}, row.of)
		for _, want := range []struct {
			f    *family
			pids []int
		}{{&a, row.wantA}, {&b, row.wantB}, {nil, row.strays}} {
			var got []int
			for _, p := range found[want.f] {
				got = append(got, p.pid)
			}
			if slices.Sort(got); !slices.Equal(got, want.pids) {
				t.Errorf("%s: %v, want %v", row.name, got, want.pids)
			}
		}
		if len(a.members) != len(row.wantA) {
			t.Errorf("%s: it remembers %v", row.name, a.members)
		}
	}
	// Without a parent of orphans, marks tell of all processes, and nobody is a stray.
	a := family{root: 20, mark: "A"}
	found := attribute(all([4]int{20, 10, 20, 5}, [4]int{22, 1, 22, 7}, [4]int{23, 1, 23, 7}), 0, []*family{&a}, map[int]origin{22: {"A", 5}, 23: {"", 4}})
	if len(found[&a]) != 2 || len(found[nil]) != 0 {
		t.Errorf("embedded: %v", found)
	}
}
