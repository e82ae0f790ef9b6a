package history

import (
	"slices"
	"time"

	"github.com/troupe-run/troupe/internal/attachment"
	"github.com/troupe-run/troupe/internal/stream"
	"github.com/troupe-run/troupe/internal/takeover"
)

// reading is a connection here whose stream another node writes.
type reading struct {
	id   uint64
	by   takeover.Writer
	r    *resumption
	owed int
}

func (r *resumption) reads(by takeover.Writer) *reading {
	r.leave()
	r.n.readers++
	x := &reading{id: r.n.readers, by: by, r: r}
	r.x = x
	r.n.readings = append(r.n.readings, x)
	return x
}

func (r *resumption) leave() {
	if x := r.x; x != nil {
		x.drop()
		if r.conn.over {
			r.n.send(x.by.Node, x.by.Boot, func(to *node) {
				if f := to.reader(r.n, x.id); f != nil {
					f.leave()
				}
			})
		}
	}
}

func (x *reading) drop() {
	n := x.r.n
	n.readings = slices.DeleteFunc(n.readings, func(y *reading) bool { return x == y })
	if x.r.x == x {
		x.r.x = nil
	}
}

func (n *node) reading(id uint64) *reading {
	for _, x := range n.readings {
		if x.id == id {
			return x
		}
	}
	return nil
}

// ask asks the writer whether it is there, and how far.
func (x *reading) ask() {
	n := x.r.n
	tail, known := uint64(0), false
	n.ask(x.by.Node, x.by.Boot, func(to *node, reply func(error)) {
		if f := to.reader(n, x.id); f != nil {
			f.heard, tail, known = n.w.now, f.flow.Tail, true
		}
		reply(nil)
	}, func(err error) {
		switch {
		case n.reading(x.id) != x:
		case err != nil:
			n.gone(x.by, func(gone bool, err error) {
				if err == nil && gone && n.reading(x.id) == x {
					x.drop()
					x.r.again()
				}
			})
		case !known:
			x.drop()
			x.r.again()
		default:
			x.r.att.Tail(tail)
		}
	})
}

// farReader is a connection on another node.
type farReader struct {
	n, at *node // at has the connection
	id    uint64
	s     *writer
	flow  attachment.Flow
	heard time.Duration
	over  bool
}

func (n *node) addReader(at *node, id uint64, s *writer) *farReader {
	if old := n.reader(at, id); old != nil { // the letter came twice
		return old
	}
	f := &farReader{n: n, at: at, id: id, s: s, heard: n.w.now, flow: attachment.Flow{Max: n.w.plan.Flow}}
	n.far = append(n.far, f)
	return f
}

func (n *node) reader(at *node, id uint64) *farReader {
	for _, f := range n.far {
		if f.at == at && f.id == id {
			return f
		}
	}
	return nil
}

// send has something happen to the connection.
func (f *farReader) send(do func(x *reading)) {
	f.n.send(f.at.name, f.at.boot, func(to *node) {
		if x := to.reading(f.id); x != nil {
			do(x)
		}
	})
}

func (f *farReader) Frame(fr attachment.Frame) {
	if !f.over {
		switch f.flow.Frame(fr.Num, attachment.Size(&fr.Append)) {
		case attachment.AsFrame:
			data := fr.Append.Encode()
			f.send(func(x *reading) {
				var reader stream.Reader
				a, _, _ := reader.Add(fr.Num, data)
				x.r.att.Frame(attachment.Frame{From: fr.From, Append: a})
				if x.owed += attachment.Size(&a); x.owed >= f.n.w.plan.Flow/4 {
					owed := x.owed
					x.owed = 0
					x.r.n.send(f.n.name, f.n.boot, func(*node) { f.credit(owed) })
				}
				if a.Last {
					x.drop()
				}
			})
		case attachment.AsTail:
			f.send(func(x *reading) { x.r.att.Tail(fr.Num) })
		}
	}
	if fr.Last && !f.flow.Behind {
		f.leave()
	}
}

func (f *farReader) credit(bytes int) {
	f.heard = f.n.w.now
	if f.flow.Credit(bytes) && !f.over {
		tail := f.flow.Tail
		f.send(func(x *reading) { x.r.att.Tail(tail) })
	}
}

func (f *farReader) Finish() { f.end(func(x *reading) { x.drop(); x.r.again() }) } // the node gives the stream up
func (f *farReader) Cut()    { f.end(func(x *reading) { x.drop(); x.r.att.Cut() }) }

func (f *farReader) end(do func(x *reading)) {
	if !f.over {
		f.send(do)
		f.leave()
	}
}

func (f *farReader) leave() {
	f.over = true
	f.n.far = slices.DeleteFunc(f.n.far, func(g *farReader) bool { return f == g })
	if f.s.att == reader(f) {
		f.s.att = nil
	}
}
