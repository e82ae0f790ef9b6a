package cluster

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/troupe-run/troupe/internal/bubble"
	"github.com/troupe-run/troupe/internal/store"
	"github.com/troupe-run/troupe/test/kit/when"
)

const testTask = "anon.demo.t1"

// TestPartsOfATask stores parts of all sizes beside a record, and only under the record's revision.
func TestPartsOfATask(t *testing.T) {
	when.Unraced(t, "one goroutine does all of it")
	t.Parallel()
	stores(t, func(t *testing.T, o Options) {
		o.Prefix = "p-1"
		n := open(t, o)
		ctx := t.Context()
		if err := n.PutPart(ctx, testTask, "req", []byte("request"), 0, time.Hour); err != nil {
			t.Fatal(err)
		}
		rev := must[uint64](t)(n.Create(ctx, "task."+testTask, []byte("record"), time.Hour))
		wantErr(t, "a part of a task that has no record yet, beside its record", n.PutPart(ctx, testTask, "late", nil, 0, time.Hour), store.ErrFenced)
		for _, size := range []int{0, 1, bodyPart, bodyPart + 1, 3 * bodyPart} {
			data := bytes.Repeat([]byte("x"), size)
			if err := n.PutPart(ctx, testTask, "s-1", data, rev, time.Hour); err != nil {
				t.Fatal(err)
			}
			if got, err := n.Part(ctx, testTask, "s-1"); err != nil || !bytes.Equal(got, data) {
				t.Errorf("a part of %d bytes: got %d, %v", size, len(got), err)
			}
		}
		wantErr(t, "too large", n.PutPart(ctx, testTask, "s-2", make([]byte, MaxPart+1), rev, time.Hour), store.ErrTooBig)
		next := must[uint64](t)(n.Update(ctx, "task."+testTask, []byte("again"), rev, time.Hour))
		wantErr(t, "under an old revision", n.PutPart(ctx, testTask, "s-2", nil, rev, time.Hour), store.ErrFenced)
		_, err := n.Part(ctx, testTask, "s-2")
		wantErr(t, "a part that was refused", err, store.ErrNotFound)
		if data, got, err := n.Get(ctx, "task."+testTask); err != nil || got != next || string(data) != "again" {
			t.Errorf("the record: %q, %d, %v", data, got, err)
		}
		if got, err := n.Part(ctx, testTask, "req"); err != nil || string(got) != "request" {
			t.Errorf("the request: %q, %v", got, err)
		}
		for _, tt := range []struct {
			drop string
			size int
			left []string
		}{{"none", 0, []string{"req", "s-1"}}, {"s-1", 4 * bodyPart, []string{"req"}}, {"", 0, nil}} {
			if err := n.DropPart(ctx, testTask, tt.drop, tt.size); err != nil {
				t.Errorf("drop %q: %v", tt.drop, err)
			}
			left := must[[]string](t)(n.Parts(ctx, testTask))
			if slices.Sort(left); !slices.Equal(left, tt.left) {
				t.Errorf("after drop of %q the parts %v are left, want %v", tt.drop, left, tt.left)
			}
			if all := must[map[string]uint64](t)(n.listSubjects(ctx, tasks, "task."+testTask+".>")); len(all) != len(tt.left) && tt.drop != "none" {
				t.Errorf("after drop of %q the messages %v are left", tt.drop, all)
			}
		}
		if _, got, err := n.Get(ctx, "task."+testTask); err != nil || got != next {
			t.Errorf("the record after that: %d, %v", got, err)
		}
		wantErr(t, "drop of a bad part", n.DropPart(ctx, testTask, "*", 0), store.ErrBadKey)
		for _, name := range []string{"", "a.b", "*", ">"} {
			wantErr(t, "part "+name, n.PutPart(ctx, testTask, name, nil, rev, time.Hour), store.ErrBadKey)
			wantErr(t, "part of task "+name, n.PutPart(ctx, "anon.demo."+name, "x", nil, rev, time.Hour), store.ErrBadKey)
		}
	})
}

// TestTasksAreListed lists tasks in pages while one of them changes: it may come twice, and no other is left out or comes
// twice. Parts, and the tasks of others, are not listed.
func TestTasksAreListed(t *testing.T) {
	t.Parallel()
	n := open(t, Options{})
	ctx := t.Context()
	revs := make(map[string]uint64)
	for i := range 7 {
		id := fmt.Sprintf("t%d", i)
		revs[id] = must[uint64](t)(n.Create(ctx, "task.anon.demo."+id, []byte(id), time.Hour))
		if err := n.PutPart(ctx, "anon.demo."+id, "req", []byte("r"), revs[id], time.Hour); err != nil {
			t.Fatal(err)
		}
		must[uint64](t)(n.Create(ctx, "task.other.demo."+id, nil, time.Hour))
		must[uint64](t)(n.Create(ctx, "task.anon.demo2."+id, nil, time.Hour))
	}
	if err := n.Delete(ctx, "task.anon.demo.t6", 0); err != nil {
		t.Fatal(err)
	}
	var got []string
	for from := uint64(0); ; {
		page := must[[]store.Task](t)(n.ListTasks(ctx, "anon", "demo", from, 2))
		if len(page) == 0 {
			break
		}
		for _, s := range page {
			got = append(got, s.ID)
			from = s.Rev + 1
		}
		if len(got) == 2 { // one that was listed, and one that was not
			for _, id := range []string{"t0", "t3"} {
				must[uint64](t)(n.Update(ctx, "task.anon.demo."+id, []byte(id), revs[id], time.Hour))
			}
		}
	}
	if want := "t0 t1 t2 t4 t5 t0 t3"; strings.Join(got, " ") != want {
		t.Errorf("got %v, want %s", got, want)
	}
	_, err := n.ListTasks(ctx, "*", "demo", 0, 10)
	wantErr(t, "the tasks of all", err, store.ErrBadKey)
}

// next takes work as a worker does, which asks once more where the server overlooks work for those who wait.
func (q *workQueue) next(t *testing.T) *taskWork {
	t.Helper()
	for end := time.Now().Add(time.Minute); time.Now().Before(end); {
		ctx, cancel := context.WithTimeout(t.Context(), 100*time.Millisecond)
		w, err := q.Next(ctx)
		if late := ctx.Err() != nil; err != nil && late {
			w, err = q.Poke()
		}
		cancel()
		if err != nil {
			t.Fatalf("no work: %v", err)
		}
		if w != nil {
			return w.(*taskWork)
		}
	}
	t.Fatal("no work")
	return nil
}

// idle fails the test if there is work within a time.
func (q *workQueue) idle(t *testing.T, d time.Duration) {
	t.Helper()
	ctx, cancel := context.WithTimeout(t.Context(), d)
	defer cancel()
	if w, err := q.Next(ctx); err == nil {
		t.Errorf("there is work: %+v", w)
	} else if !errors.Is(err, context.DeadlineExceeded) {
		t.Errorf("no work: %v", err)
	}
}

// TestWork gives work to one worker at a time, in its order: again when the worker says nothing for five seconds, or gives it
// back; and never once it is done or has expired. Each server has a queue of its own.
func TestWork(t *testing.T) {
	stores(t, func(t *testing.T, o Options) {
		o.Lease = time.Minute // renewals are not the subject
		bubble.Test(t, func(t *testing.T) {
			n := open(t, o)
			ctx := t.Context()
			q := must[store.Queue](t)(n.Work(ctx, "demo")).(*workQueue)
			defer q.Close()
			other := must[store.Queue](t)(n.Work(ctx, "demo2")).(*workQueue)
			defer other.Close()
			for _, id := range []string{"a", "b"} {
				if _, err := n.Offer(ctx, "anon", "demo", id, "", time.Hour); err != nil {
					t.Fatal(err)
				}
			}
			if got := must[[]string](t)(n.Working(ctx)); !slices.Equal(got, []string{"demo"}) {
				t.Errorf("servers with work: %v", got)
			}
			a, b := q.next(t), q.next(t)
			if a.task != "a" || b.task != "b" || a.tenant != "anon" || a.deliveries != 1 {
				t.Errorf("got %+v and %+v", a, b)
			}
			for range 10 { // a is kept
				time.Sleep(time.Second)
				if err := a.Keep(); err != nil {
					t.Fatal(err)
				}
			}
			if again := q.next(t); again.task != "b" || again.deliveries < 2 {
				t.Errorf("after five seconds: %+v", again)
			} else if err := again.Later(30 * time.Second); err != nil {
				t.Fatal(err)
			}
			if err := a.Done(); err != nil {
				t.Fatal(err)
			}
			q.idle(t, 25*time.Second)
			time.Sleep(10 * time.Second)
			if later := q.next(t); later.task != "b" {
				t.Errorf("after half a minute: %+v", later)
			} else if err := later.Done(); err != nil {
				t.Fatal(err)
			}
			if _, err := n.Offer(ctx, "anon", "demo", "c", "", 2*time.Second); err != nil {
				t.Fatal(err)
			}
			time.Sleep(10 * time.Second)
			q.idle(t, time.Minute)
			other.idle(t, time.Second)
			if got := must[[]string](t)(n.Working(ctx)); len(got) != 0 {
				t.Errorf("servers with work, at the end: %v", got)
			}
			_, err := n.Offer(ctx, "anon", "demo", "a.b", "", time.Hour)
			wantErr(t, "a task of a bad name", err, store.ErrBadKey)
			_, err = n.Work(ctx, "*")
			wantErr(t, "the work of all", err, store.ErrBadKey)
		})
	})
}

// TestWorkByItsNumber: work is there under its number, for its task alone, until it is withdrawn or done. Of those who ask for a turn one has it, and nobody else until it is over: not even where that one
// lives on. What keeps it is no work.
func TestWorkByItsNumber(t *testing.T) {
	stores(t, func(t *testing.T, o Options) {
		o.Lease = time.Minute // renewals are not the subject
		bubble.Test(t, func(t *testing.T) {
			n := open(t, o)
			ctx := t.Context()
			a, b := must[uint64](t)(n.Offer(ctx, "anon", "demo", "a", "client", time.Hour)), must[uint64](t)(n.Offer(ctx, "anon", "demo", "b", "", time.Hour))
			has := func(server, task string, seq uint64, want bool) {
				t.Helper()
				for tenant, want := range map[string]bool{"anon": want, "other": false} {
					if got := must[bool](t)(n.HasWork(ctx, tenant, server, task, seq)); got != want {
						t.Errorf("work %d of task %s of %s at %s is there: %v", seq, task, tenant, server, got)
					}
				}
			}
			has("demo", "a", a, true)
			has("demo", "b", b, true)
			has("demo", "a", b, false)
			has("demo2", "a", a, false)
			has("demo", "a", 0, false)
			has("demo", "a", 99, false)
			for range 2 { // what is not there is no error
				if err := n.Withdraw(ctx, a); err != nil {
					t.Error(err)
				}
			}
			has("demo", "a", a, false)
			if !must[bool](t)(n.TakeTurn(ctx, time.Minute)) || must[bool](t)(n.TakeTurn(ctx, time.Minute)) {
				t.Error("the first who asks for a turn does not have it, or the second does")
			}
			if got := must[[]string](t)(n.Working(ctx)); !slices.Equal(got, []string{"demo"}) {
				t.Errorf("servers with work: %v", got)
			}
			time.Sleep(time.Minute + 2*time.Second)
			if !must[bool](t)(n.TakeTurn(ctx, time.Minute)) {
				t.Error("nobody has a turn after the first")
			}
			// The consumer of a server goes with the last who wants it, and not before its work.
			q := must[store.Queue](t)(n.Work(ctx, "demo")).(*workQueue)
			other := must[store.Queue](t)(n.Work(ctx, "demo")).(*workQueue)
			there := func(what string, want bool) {
				t.Helper()
				change(t, n.Retire(ctx, "demo"))
				err := n.askAPI(ctx, "CONSUMER.INFO."+n.streamName(work)+".demo", nil, nil)
				if got := err == nil; got != want {
					t.Errorf("%s: there is a consumer: %v, %v", what, got, err)
				}
			}
			w := q.next(t)
			q.Close()
			there("with work", true)
			if err := w.Done(); err != nil {
				t.Fatal(err)
			}
			waits, cancel := context.WithCancel(ctx)
			left := make(chan error)
			go func() {
				_, err := other.Next(waits)
				left <- err
			}()
			time.Sleep(time.Second)
			there("somebody waits", true)
			cancel()
			<-left
			other.Close()
			there("with nobody", false)
			there("again", false)
		})
	})
}

// TestWorkOfADeadProcess: who takes the directory over gets at once what the process before had.
func TestWorkOfADeadProcess(t *testing.T) {
	t.Parallel()
	o := Options{Dir: t.TempDir()}
	n := must[*Node](t)(Open(t.Context(), o))
	q := must[store.Queue](t)(n.Work(t.Context(), "demo")).(*workQueue)
	for _, id := range []string{"a", "b", "c"} {
		if _, err := n.Offer(t.Context(), "anon", "demo", id, "", time.Hour); err != nil {
			t.Fatal(err)
		}
	}
	if err := q.next(t).Done(); err != nil {
		t.Fatal(err)
	}
	left := []string{q.next(t).task, q.next(t).task} // a worker that asks once more may get the next before what it has asked for
	q.Close()
	if err := n.Close(t.Context()); err != nil {
		t.Fatal(err)
	}
	n = open(t, o)
	start := time.Now()
	q = must[store.Queue](t)(n.Work(t.Context(), "demo")).(*workQueue)
	defer q.Close()
	got := []string{q.next(t).task, q.next(t).task}
	when.Within(t, "what is given out at once, and not by itself,", time.Since(start), 4*time.Second)
	slices.Sort(left)
	if slices.Sort(got); !slices.Equal(got, left) {
		t.Errorf("got %q, want %q", got, left)
	}
}
