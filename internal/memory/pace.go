package memory

import (
	"context"
	"runtime"
	"runtime/debug"
	"runtime/metrics"
)

// Go's collector runs when the heap has grown by a percentage of what was live. A server of many small requests has little that is
// live, and would collect many times a second.
const (
	leastPercent = 200       // beyond a small heap
	mostPercent  = 800       // of a heap that is nearly empty
	spareShare   = 16        // of the memory, garbage may take one part before a collection,
	spareMost    = 128 << 20 // and not more than this while that is more than leastPercent of the heap

	// growingPercent is while what is live grows, as with sessions that begin, up to spareMost: what a request leaves behind lies among the
	// garbage of that request, and a page with anything on it is not given back.
	growingPercent = 100
	growingFor     = 12      // collections after it has
	growingLeast   = 4 << 20 // It has grown if it is this and
	growingShare   = 8       // one part more than the most that was lately,
	fadingShare    = 32      // of which a part is forgotten in each collection,
	growingFrom    = 8 << 20 // down to this: a process has about as much before its clients come.
)

// Pace has the garbage collector run when the heap has grown to three times what is live, and seldom while it is small: garbage may take a
// sixteenth of total, the bytes that the process may use, at most 128 MiB. While what is live grows and is less than 128 MiB, it runs when
// the heap has doubled, so that what stays lies close together. Pace adjusts that after each collection, until ctx is done. It is that of
// the whole process: only a program that has the process for itself should call it.
func Pace(ctx context.Context, total int64) {
	p := &pacer{ctx: ctx, spare: min(total/spareShare, spareMost), calm: growingFor, live: live, set: debug.SetGCPercent}
	p.adjust()
	p.arm()
}

// pacer adjusts the pace.
type pacer struct {
	ctx     context.Context
	spare   int64
	percent int
	most    int64 // that was live lately
	calm    int   // collections since it grew
	live    func() int64
	set     func(percent int) (before int)
}

// sentinel is collected by the next collection. It has a pointer, because tiny objects without one share their memory with others.
type sentinel struct{ _ *sentinel }

// arm has the pace adjusted after the next collection.
func (p *pacer) arm() {
	runtime.AddCleanup(new(sentinel), func(p *pacer) {
		if p.ctx.Err() == nil {
			p.adjust()
			p.arm()
		}
	}, p)
}

// adjust sets the percentage, unless it is about right: setting it stops the world.
func (p *pacer) adjust() {
	now := p.live()
	want := percentOf(now, p.spare)
	p.most = max(p.most, growingFrom)
	if p.calm++; now-p.most > max(growingLeast, p.most/growingShare) {
		p.most, p.calm = now, 0
	}
	if p.calm < growingFor && now < spareMost {
		want = growingPercent
	} else {
		p.most = max(now, p.most-p.most/fadingShare)
	}
	if p.percent == 0 || want > p.percent+p.percent/8 || want < p.percent-p.percent/8 {
		p.percent = want
		p.set(want)
	}
}

// percentOf returns by how much of what is live the heap may grow.
func percentOf(live, spare int64) int {
	return int(max(min(spare*100/max(live, 1), mostPercent), leastPercent))
}

// live returns how many bytes were live after the last collection.
func live() int64 {
	s := []metrics.Sample{{Name: "/gc/heap/live:bytes"}}
	metrics.Read(s)
	return int64(s[0].Value.Uint64())
}
