package relay

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"strings"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/troupe-run/troupe/codec"
	"github.com/troupe-run/troupe/internal/quota"
	"github.com/troupe-run/troupe/internal/refusal"
)

// link is an exchange whose letters a test carries.
type link struct {
	far      *Far
	near     *Near
	toNear   [][]byte // frames
	toFar    [][]byte // credit
	accounts *quota.Accounts
	atFar    quota.Holding
	atNear   quota.Holding
	ended    int
	over     int
	most     int
	deepest  uint64 // weight of frames that were on their way
}

// linked returns an exchange of a client that may hold so many bytes on each node; 0 is no limit.
func linked(t *testing.T, may int64) *link {
	t.Helper()
	if may == 0 {
		may = -1
	}
	l := &link{accounts: quota.New(quota.Limits{Places: 100, Each: 100, Accounts: 10, Bytes: may}), most: 1 << 20}
	for _, h := range []*quota.Holding{&l.atFar, &l.atNear} {
		if no, ok := h.Charge(l.accounts, l.accounts.Of("t", ""), quota.Queues, 1); no != quota.Admitted || !ok {
			t.Fatal(no, ok)
		}
	}
	l.far = NewFar(id, &l.atFar, l.most, func(b []byte) { l.toNear = append(l.toNear, b) }, func() { l.ended++ })
	l.near = NewNear(id, &l.atNear, func(b []byte) { l.toFar = append(l.toFar, b) }, func() { l.over++ })
	return l
}

// frame takes the first frame that is on its way.
func (l *link) frame(t *testing.T) Frame {
	t.Helper()
	f, err := ReadFrame(l.toNear[0])
	if err != nil {
		t.Fatal(err)
	}
	l.toNear = l.toNear[1:]
	return f
}

// carry delivers all letters, until there are no more.
func (l *link) carry(t *testing.T) {
	t.Helper()
	for len(l.toNear)+len(l.toFar) > 0 {
		var onWay uint64
		for _, b := range l.toNear {
			f, _ := ReadFrame(b)
			onWay += f.windowWeight()
		}
		l.deepest = max(l.deepest, onWay)
		for len(l.toNear) > 0 {
			f := l.frame(t)
			l.near.TakeFrame(&f)
		}
		for len(l.toFar) > 0 {
			a, _, err := ReadAlive(l.toFar[0])
			if err != nil {
				t.Fatal(err)
			}
			l.toFar = l.toFar[1:]
			l.far.Hear(a.Credit)
		}
	}
}

// come returns the messages that have come, and takes them.
func (l *link) come() (all []Message, err error) {
	for {
		m, err := l.near.NextMessage(done())
		if err != nil {
			if errors.Is(err, context.Canceled) {
				err = nil
			}
			return all, err
		}
		all = append(all, m)
		l.near.FreeMessage(&m)
	}
}

func done() context.Context {
	ctx, cancel := context.WithCancel(context.Background())
	cancel()
	return ctx
}

func said(all []Message) string {
	var b strings.Builder
	for _, m := range all {
		fmt.Fprintf(&b, "%d:%d:%.10s:%d ", m.Kind, m.Status, m.Data, len(m.Data))
	}
	return strings.TrimSpace(b.String())
}

// TestExchange compares what a call does with what comes out, and checks that nothing stays counted.
func TestExchange(t *testing.T) {
	t.Parallel()
	large := bytes.Repeat([]byte("0123456789"), 100_000)
	for name, tt := range map[string]struct {
		do   func(x *Far)
		want string
	}{
		"a response":        {func(x *Far) { x.Answer(404, []byte("{}")) }, "4:404:{}:2"},
		"a large response":  {func(x *Far) { x.Answer(200, large) }, "4:200:0123456789:1000000"},
		"an empty response": {func(x *Far) { x.Accepted() }, "4:202::0"},
		"only the first": {func(x *Far) {
			x.Answer(200, []byte("a"))
			x.Answer(200, []byte("b"))
			x.Reject(refusal.New(1, 2, ""))
			x.Open()
		}, "4:200:a:1"},
		"a stream": {func(x *Far) {
			x.Event("", 0, []byte("too early"))
			x.Open()
			x.Event("", 0, []byte("a"))
			x.Answer(200, []byte("too late"))
			x.Comment()
			x.Flush()
			x.Event("", 0, large)
			x.Event("", 0, []byte("b"))
			x.Finish()
			x.Event("", 0, []byte("too late"))
			x.Finish()
		}, "1:0::0 2:0:a:1 2:0:0123456789:1000000 2:0:b:1 3:0::0"},
		"a cut":                   {func(x *Far) { x.Open(); x.Cut(); x.Finish() }, "6:0::0"},
		"a cut in mid-message":    {func(x *Far) { x.Open(); x.Event("", 0, large); x.Cut(); x.Cut() }, "6:0::0"},
		"a cut before a response": {func(x *Far) { x.Cut(); x.Answer(200, nil) }, "6:0::0"},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			l := linked(t, 0)
			gone := make(chan bool, 1)
			l.far.Gone(func() { gone <- true })
			tt.do(l.far)
			var all []Message
			var err error
			for range 20 { // each time the reader makes room for more
				l.carry(t)
				more, fault := l.come()
				all, err = append(all, more...), errors.Join(err, fault)
			}
			if got := said(all); err != nil || got != tt.want {
				t.Errorf("got %s, %v, want %s", got, err, tt.want)
			}
			for _, m := range all {
				if len(m.Data) == len(large) && !bytes.Equal(m.Data, large) {
					t.Error("the large message is another")
				}
			}
			<-gone
			if l.ended != 1 || l.far.Context().Err() == nil {
				t.Errorf("ended %d times", l.ended)
			}
			if n := l.accounts.Bytes(); n != 2 {
				t.Errorf("%d bytes are counted", n-2)
			}
			if l.deepest > Window+around {
				t.Errorf("%d bytes were on their way", l.deepest)
			}
		})
	}
}

func TestReject(t *testing.T) {
	t.Parallel()
	l := linked(t, 0)
	l.far.Reject(&refusal.Refusal{Status: 429, Code: -32600, Text: "no", Data: []byte(`{"a":1}`), ID: []byte(`"7"`), After: 3 * time.Second})
	l.carry(t)
	all, _ := l.come()
	var r refusal.Refusal
	if len(all) != 1 || all[0].Kind != Reject || codec.Unmarshal(all[0].Data, &r) != nil {
		t.Fatalf("got %s", said(all))
	}
	if r.Status != 429 || r.Code != -32600 || r.Text != "no" || string(r.Data) != `{"a":1}` || string(r.ID) != `"7"` || r.After != 3*time.Second {
		t.Errorf("got %+v", r)
	}
}

// TestWindow has a reader that does not read: no more than the window is on its way, and no more than the limit waits.
func TestWindow(t *testing.T) {
	t.Parallel()
	l := linked(t, 0)
	l.far.Open()
	event := make([]byte, 10_000)
	for range 60 {
		l.far.Event("", 0, event)
	}
	var onWay uint64
	for _, b := range l.toNear {
		f, _ := ReadFrame(b)
		onWay += f.windowWeight()
	}
	if onWay > Window || onWay < Window-MaxPart {
		t.Errorf("%d bytes are on their way", onWay)
	}
	for len(l.toNear) > 0 { // they come, and nobody reads them
		f := l.frame(t)
		l.near.TakeFrame(&f)
	}
	if len(l.toFar) > 0 || l.far.Room(done()) == nil && l.far.out.queued > l.most/2 {
		t.Errorf("%d letters give credit for what was not read", len(l.toFar))
	}
	waiting := l.far.out.queued
	if got := l.accounts.Bytes(); got < int64(waiting)+int64(onWay)/2 {
		t.Errorf("%d bytes are counted of %d that wait and %d that have come", got, waiting, onWay)
	}
	for range 100 {
		l.far.Event("", 0, event)
	}
	if l.ended != 1 || l.far.Broken() {
		t.Errorf("%d bytes wait for a client that does not read", l.far.out.queued)
	}
}

// TestRoom checks that whoever waits for room goes on when the client reads.
func TestRoom(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		l := linked(t, 0)
		l.far.Open()
		for l.far.Room(done()) == nil {
			l.far.Event("", 0, make([]byte, 50_000))
		}
		var err error
		returned := false
		go func() { err = l.far.Room(t.Context()); returned = true }()
		synctest.Wait()
		if returned {
			t.Fatal("there is room though nothing was read")
		}
		for range 20 {
			l.carry(t)
			_, _ = l.come()
		}
		if synctest.Wait(); !returned || err != nil {
			t.Errorf("%v after all was read", err)
		}
		l.far.Close()
		if err := l.far.Room(t.Context()); !errors.Is(err, ErrSilent) {
			t.Errorf("room on an exchange that is gone: %v", err)
		}
	})
}

// TestFaults has frames that were lost, doubled, or that no call sends. What came before is delivered.
func TestFaults(t *testing.T) {
	t.Parallel()
	frame := func(num uint64, k Kind, rest int, data string) Frame {
		return Frame{ID: id, Num: num, Kind: k, Rest: rest, Data: []byte(data)}
	}
	for name, tt := range map[string]struct {
		frames []Frame
		want   string
		err    error
	}{
		"a gap":                       {[]Frame{frame(1, Open, 0, ""), frame(3, Event, 0, "a")}, "1:0::0", ErrGap},
		"the first is missing":        {[]Frame{frame(2, Answer, 0, "a")}, "", ErrGap},
		"in another order":            {[]Frame{frame(1, Open, 0, ""), frame(3, Finish, 0, ""), frame(2, Event, 0, "a")}, "1:0::0", ErrGap},
		"twice":                       {[]Frame{frame(1, Open, 0, ""), frame(1, Open, 0, ""), frame(2, Event, 0, "a"), frame(1, Open, 0, ""), frame(2, Event, 0, "a")}, "1:0::0 2:0:a:1", nil},
		"an event before the stream":  {[]Frame{frame(1, Event, 0, "a")}, "", ErrOrder},
		"an end before the stream":    {[]Frame{frame(1, Finish, 0, "")}, "", ErrOrder},
		"a response in a stream":      {[]Frame{frame(1, Open, 0, ""), frame(2, Answer, 0, "a")}, "1:0::0", ErrOrder},
		"two responses":               {[]Frame{frame(1, Answer, 0, "a"), frame(2, Answer, 0, "a")}, "4:0:a:1", ErrOrder},
		"a cut after the end":         {[]Frame{frame(1, Answer, 0, "a"), frame(2, Cut, 0, "")}, "4:0:a:1", ErrOrder},
		"a part of another kind":      {[]Frame{frame(1, Open, 0, ""), frame(2, Event, 2, "a"), frame(3, Finish, 1, "b")}, "1:0::0", ErrOrder},
		"parts that do not add up":    {[]Frame{frame(1, Answer, 2, "a"), frame(2, Answer, 0, "b")}, "", ErrOrder},
		"a part without data":         {[]Frame{frame(1, Answer, 2, "a"), frame(2, Answer, 2, "")}, "", ErrOrder},
		"a response in parts":         {[]Frame{frame(1, Answer, 2, "a"), frame(2, Answer, 1, "b"), frame(3, Answer, 0, "c")}, "4:0:abc:3", nil},
		"nothing after the exchange":  {[]Frame{frame(1, Cut, 0, ""), frame(2, Open, 0, "")}, "6:0::0", ErrOrder},
		"more than the window":        {flood(), "", ErrFlood},
		"more empty ones than it has": {emptyOnes(), "", ErrFlood},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			l := linked(t, 0)
			for i := range tt.frames {
				l.near.TakeFrame(&tt.frames[i])
			}
			all, err := l.come()
			if errors.Is(tt.err, ErrFlood) {
				all = nil
			}
			if got := said(all); got != tt.want || !errors.Is(err, tt.err) {
				t.Errorf("got %s, %v, want %s, %v", got, err, tt.want, tt.err)
			}
		})
	}
}

func flood() []Frame {
	all := []Frame{{ID: id, Num: 1, Kind: Open}}
	for n := range 5 {
		all = append(all, Frame{ID: id, Num: uint64(n + 2), Kind: Event, Data: make([]byte, MaxPart)})
	}
	return all
}

func emptyOnes() []Frame {
	all := []Frame{{ID: id, Num: 1, Kind: Open}}
	for n := range Window/around + 2 {
		all = append(all, Frame{ID: id, Num: uint64(n + 2), Kind: Event})
	}
	return all
}

// TestNoMemory has clients with too little room on either node.
func TestNoMemory(t *testing.T) {
	t.Parallel()
	l := linked(t, 200_000)
	if l.far.Answer(200, make([]byte, 1<<20)); l.ended != 1 {
		t.Error("an answer waits that there is no room for")
	}
	l.carry(t)
	if all, err := l.come(); said(all) != "6:0::0" || err != nil {
		t.Errorf("got %s, %v", said(all), err)
	}
	l = linked(t, 200_000)
	l.near.TakeFrame(&Frame{ID: id, Num: 1, Kind: Answer, Rest: 1 << 20, Data: []byte("a")})
	if all, err := l.come(); len(all) > 0 || !errors.Is(err, ErrMemory) {
		t.Errorf("got %s, %v", said(all), err)
	}
	if n := l.accounts.Bytes(); n != 2 {
		t.Errorf("%d bytes are counted", n-2)
	}
}

// TestSilence checks both ends against the time since the other one was heard.
func TestSilence(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		l := linked(t, 0)
		time.Sleep(2 * Patience)
		if l.near.BreakIfSilent(time.Now()); l.near.fault != nil {
			t.Error("the node is missed before it has said that it has the request")
		}
		l.near.Hear(0)
		l.far.Hear(0)
		for range 5 {
			time.Sleep(Beat)
			a := l.near.Alive()
			l.far.Hear(a.Credit)
			a = l.far.Alive()
			l.near.Hear(a.Num)
			if l.near.BreakIfSilent(time.Now()); l.near.fault != nil || l.far.Silent(time.Now()) {
				t.Fatal("a side is missed that was heard")
			}
		}
		time.Sleep(Patience + time.Second)
		l.near.BreakIfSilent(time.Now())
		if _, err := l.near.NextMessage(t.Context()); !errors.Is(err, ErrSilent) || !l.far.Silent(time.Now()) {
			t.Errorf("%v after the other side was silent", err)
		}
		l.near = NewNear(id, &l.atNear, func([]byte) {}, func() {})
		l.near.Hear(1)
		if _, err := l.near.NextMessage(t.Context()); !errors.Is(err, ErrGap) {
			t.Errorf("%v though a frame was sent that never came", err)
		}
	})
}

// TestHowItEnds checks what a call learns of the end of its exchange.
func TestHowItEnds(t *testing.T) {
	t.Parallel()
	for name, tt := range map[string]struct {
		end    func(x *Far)
		broken bool
	}{
		"closed": {(*Far).Close, false}, "broken": {(*Far).Break, true}, "cut": {(*Far).Cut, false},
		"broken after it was closed": {func(x *Far) { x.Close(); x.Break() }, false},
	} {
		synctest.Test(t, func(t *testing.T) {
			l := linked(t, 0)
			var told, taken atomic.Int64
			stop := l.far.WhenGone(func() { taken.Add(1) })
			if !stop() || stop() {
				t.Errorf("%s: the first watch was not taken back once", name)
			}
			stop = l.far.WhenGone(func() { told.Add(1) })
			ctx := l.far.Context()
			l.far.Open()
			tt.end(l.far)
			synctest.Wait()
			if told.Load() != 1 || taken.Load() != 0 || stop() || ctx.Err() == nil || l.far.Broken() != tt.broken || l.ended != 1 || l.far.Open() {
				t.Errorf("%s: told %d and %d times, broken: %v, ended %d times", name, told.Load(), taken.Load(), l.far.Broken(), l.ended)
			}
			l.far.WhenGone(func() { told.Add(1) })
			l.far.Gone(func() { told.Add(1) })
			if synctest.Wait(); told.Load() != 3 {
				t.Errorf("%s: late watchers were not told", name)
			}
		})
	}
}

// TestRandomExchanges loses, doubles and swaps letters. What comes out is the beginning of what went in, and all of it unless the
// exchange is broken.
func TestRandomExchanges(t *testing.T) {
	t.Parallel()
	for seed := range uint64(100) {
		rnd := rand.New(rand.NewPCG(seed, 1))
		l := linked(t, 0)
		var in, out strings.Builder
		l.far.Open()
		harm := rnd.IntN(3) == 0
		var fault error
		move := func() {
			if harm && len(l.toNear) > 1 && rnd.IntN(40) == 0 {
				switch i := rnd.IntN(len(l.toNear) - 1); rnd.IntN(3) {
				case 0:
					l.toNear = append(l.toNear[:i], l.toNear[i+1:]...)
				case 1:
					l.toNear[i], l.toNear[i+1] = l.toNear[i+1], l.toNear[i]
				default:
					l.toNear = append(l.toNear, l.toNear[i])
				}
			}
			if harm && len(l.toFar) > 0 && rnd.IntN(10) == 0 {
				l.toFar = nil
			}
			l.carry(t)
			all, err := l.come()
			for _, m := range all {
				if m.Kind == Event {
					fmt.Fprintf(&out, "%s.", m.Data)
				}
			}
			if err != nil {
				fault = err
			}
		}
		for i := range 20 {
			data := strings.Repeat(string(rune('a'+i%26)), rnd.IntN(1+rnd.IntN(150_000)))
			fmt.Fprintf(&in, "%s.", data)
			l.far.Event("", 0, []byte(data))
			if rnd.IntN(3) == 0 {
				move()
			}
		}
		l.far.Finish()
		for range 40 {
			move()
			l.near.Hear(l.far.Alive().Num)
			l.far.Hear(l.near.Alive().Credit)
		}
		if !strings.HasPrefix(in.String(), out.String()) {
			t.Fatalf("seed %d: other bytes came out", seed)
		}
		cut := l.far.out.num > 0 && l.ended == 1 && in.Len() != out.Len() && fault == nil
		if !harm && (fault != nil || in.Len() != out.Len()) && !cut {
			t.Fatalf("seed %d: %v, and %d of %d bytes came", seed, fault, out.Len(), in.Len())
		}
		if fault == nil && in.Len() != out.Len() && !cut {
			t.Fatalf("seed %d: %d of %d bytes came and nobody was told", seed, out.Len(), in.Len())
		}
	}
}

func TestUpload(t *testing.T) {
	t.Parallel()
	body := []byte("0123456789")
	u := NewUpload(&Begin{Size: 10, Data: body[:4]})
	for i, tt := range []struct {
		at, to int
		ok     bool
	}{{3, 6, false}, {5, 6, false}, {4, 6, true}, {4, 6, false}, {6, 10, true}, {10, 10, true}} {
		if u.AddPart(&Part{Offset: tt.at, Data: body[tt.at:tt.to]}) != tt.ok {
			t.Errorf("part %d", i)
		}
	}
	if got, whole := u.Body(); string(got) != string(body) || !whole {
		t.Errorf("got %s, whole: %v", got, whole)
	}
	u = NewUpload(&Begin{Size: 5, Data: body[:4]})
	if u.AddPart(&Part{Offset: 4, Data: body[4:6]}) {
		t.Error("more than was announced")
	}
	if _, whole := u.Body(); whole {
		t.Error("whole without its end")
	}
}
