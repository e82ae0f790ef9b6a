package actors

import "time"

// clock compares the store's clock, which may jump as it is that of a machine, with one
// that does not.
type clock struct {
	now         func() time.Time // the store's
	store, here time.Time        // when it was made, on both
}

func newClock(now func() time.Time) clock { return clock{now, now(), time.Now()} }

// ahead is how much further the store's clock has gone than it should have.
func (c *clock) ahead() time.Duration { return c.now().Sub(c.store) - time.Since(c.here) }

// maxBack is by how much the store's clock may have gone back since the writer record was
// stored: less than by what events are kept longer than records (RecordTTL).
const maxBack = time.Second

// outlives reports that the writer record as it is stored would outlive an append that is
// stored now, because the store's clock has gone back, and then tell whoever takes the
// stream over that nothing has come since.
func (s *streamActor) outlives() bool { return s.written-s.node.clock.ahead() > maxBack }

// writing notes that the record is about to be stored. While nobody knows which attempt
// does it, it counts as the one that makes it live longest.
func (s *streamActor) writing() {
	ahead := s.node.clock.ahead()
	if s.trying {
		ahead = max(ahead, s.attempt)
	}
	s.trying, s.attempt = true, ahead
}

// wrote notes that the record is stored.
func (s *streamActor) wrote() {
	if s.trying {
		s.trying, s.written = false, s.attempt
	}
}
