package takeover

import "github.com/troupe-run/troupe/actors/internal/record"

// Writer names the writer in a record. The zero value is none.
type Writer struct {
	Node, Boot string
	Epoch      uint64
}

// WriterOf names the writer in a record.
func WriterOf(rec *record.Stream) Writer { return Writer{rec.Node, rec.Boot, rec.Epoch} }

// IsOf reports whether the writer is of a boot.
func (w Writer) IsOf(boot string) bool { return w.Boot == boot }

// MustBeGone reports whether a writer must be gone before this boot may take its stream over: it must not if it is this boot, or
// if it has given the stream up. given is the writer that has said that it does not write the stream.
func (w Writer) MustBeGone(boot string, given Writer) bool { return !w.IsOf(boot) && w != given }

// epochStep is the largest step between epochs; 2^30 of them make the largest epoch that an event id can carry.
const epochStep = 1 << 20

// NextEpoch is the epoch of a stream's next writer. It grows by a random step: after a
// power cut that undid the first writer's record, two writers may begin from the same
// record, and events of the one must not pass for those of the other.
func NextEpoch(epoch, random uint64) uint64 { return epoch + 1 + random%epochStep }

// Claim is what a writer may do whose guard was refused.
type Claim uint8

// The claims.
const (
	Own   Claim = iota // the record is its own: it goes on
	Taken              // another writer has the stream
	Lost               // the record is gone. It may be stored again: by what Machine.WriterMarked notes the writer learns whether the stream was another's
	Doubt              // the record is gone, and another writer may be about to have the stream
)

// ClaimOf says what a writer of a boot and an epoch may do. rec is the writer record, nil if there is none. certain says that
// the node is certain of its lease.
func ClaimOf(rec *record.Stream, boot string, epoch uint64, certain bool) Claim {
	switch {
	case rec != nil && rec.Boot == boot && rec.Epoch == epoch:
		return Own
	case rec != nil:
		return Taken
	case !certain:
		return Doubt
	}
	return Lost
}

// Same reports whether the stored record is the one that this attempt has tried to store: an attempt whose outcome was
// unknown may have stored it.
func Same(stored, tried *record.Stream) bool {
	return stored.Boot == tried.Boot && stored.Epoch == tried.Epoch
}
