package record

import (
	"slices"

	"github.com/troupe-run/troupe/actors/internal/stream"
)

// Past is what a stream's log and record say together.
type Past struct {
	Sents  Sents
	Digest Digest
	Steps  Steps
	bulk   int // at least the size of digest
}

// Past returns what the record alone says.
func (r *Stream) Past() Past {
	return Past{Sents: r.Sents(), Digest: r.Digest.Clone(), Steps: slices.Clone(r.Steps), bulk: r.Digest.Size()}
}

func (p Past) Clone() Past {
	return Past{Sents: append(Sents(nil), p.Sents...), Digest: p.Digest.Clone(), Steps: slices.Clone(p.Steps), bulk: p.bulk}
}

// NoteAppend adds a stored append. rec has the calls: questions matter only for calls that may
// run again. Questions for which no record has room are not kept in memory either: their
// calls may no longer run again. It returns the number of those calls.
func (p *Past) NoteAppend(rec *Stream, num, epoch uint64, entries []stream.Entry) (forbidden int) {
	p.Sents.NoteEntries(entries)
	d := &p.Digest
	for i := range entries {
		e := &entries[i]
		if e.Kind.Visible() {
			d.Seen = Seen{num, epoch, i}
		}
		switch e.Kind {
		case stream.Final, stream.End:
			if len(rec.Calls) > 1 { // the end of a single call is that of its stream
				d.MarkDone(rec.Calls, e.Meta)
			}
		case stream.Request:
			if rec.Safe {
				p.bulk += d.addQuestion(rec, e.Meta)
			}
		case stream.Answer:
			if step := stepOf(e); step != nil {
				p.Steps = append(p.Steps, step)
				continue
			}
			p.bulk += d.addAnswer(e)
		}
	}
	if p.bulk > MaxDigest {
		dropped := d.cutTo(MaxDigest)
		rec.ForbidRerun(dropped)
		forbidden, p.bulk = len(dropped), d.Size()
	}
	return forbidden
}

// TakePast updates the record from p up to append tail. A call whose questions do not fit may
// no longer run again: a run without the answers of the run before could get other answers.
// It returns the number of those calls.
func (r *Stream) TakePast(tail uint64, p *Past) (forbidden int) {
	if now := r.Watermark(); r.Version >= 2 && now.Upto > 0 && now.Seen != p.Digest.Seen {
		r.Earlier = append(slices.Clone(r.Earlier[max(0, len(r.Earlier)-maxWatermarks+1):]), now)
	}
	r.Version, r.Tail = Version, tail
	dropped := p.Digest.cutTo(MaxDigest)
	r.ForbidRerun(dropped)
	r.setSents(p.Sents)
	r.Digest = p.Digest.Clone()
	r.Steps = slices.Clone(p.Steps)
	return len(dropped)
}
