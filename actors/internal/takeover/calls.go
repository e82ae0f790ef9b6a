package takeover

import "github.com/troupe-run/troupe/actors/internal/record"

// Fate is what becomes of a call whose stream was taken over.
type Fate uint8

// The fates.
const (
	Answered Fate = iota // it needs nothing more
	Again                // it runs again
	Over                 // its client learns that the outcome is unknown
)

// Fates says what becomes of the calls of a stream that was taken over, by their indexes. bodies is how many requests were
// stored beside the record. all says that nobody knows which calls have their responses: then the stream ends, with what is waiting.
func Fates(rec *record.Stream, log *Log, bodies int) (fates []Fate, all bool) {
	fates = make([]Fate, len(rec.Calls))
	answered := log.Digest.AnsweredIDs(rec.Calls)
	all = log.Unknown && len(rec.Calls) > 1
	for i, c := range rec.Calls {
		switch {
		case answered[string(c.ID)]:
		case all || !rec.MayRerun(i) || i >= bodies:
			fates[i] = Over
		default:
			fates[i] = Again
		}
	}
	return fates, all
}
