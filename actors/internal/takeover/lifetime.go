package takeover

import "time"

// maxBack is how far the store's clock may have gone back since the writer record was
// stored. It is less than the time that events outlive records.
const maxBack = time.Second

// Lifetime is what a writer knows of the lifetime of its record, by how far the store's clock is ahead of its own. The zero
// value is that of a record that was stored when the clock was not ahead.
type Lifetime struct {
	written time.Duration // how far ahead the clock was when the record was stored
	attempt time.Duration // written of the attempt under way, if trying
	trying  bool
}

// NewLifetime is the lifetime of a record that is stored while the clock is ahead.
func NewLifetime(ahead time.Duration) Lifetime { return Lifetime{written: ahead} }

// Writing notes that the record is about to be stored. While it is unknown which attempt
// succeeds, the one with the longest lifetime counts.
func (l *Lifetime) Writing(ahead time.Duration) {
	if l.trying {
		ahead = max(ahead, l.attempt)
	}
	l.trying, l.attempt = true, ahead
}

// Wrote notes that the record is stored.
func (l *Lifetime) Wrote(ahead time.Duration) {
	if l.trying { // the clock may have gone forward meanwhile
		l.trying, l.written = false, max(l.attempt, ahead)
	}
}

// Stored notes that a record is stored that began with this lifetime.
func (l *Lifetime) Stored(ahead time.Duration) { l.written = max(l.written, ahead) }

// Outlives reports whether the stored writer record would outlive an append that is stored
// now, because the store's clock has gone back. The record would then tell the next writer
// that nothing came after it.
func (l *Lifetime) Outlives(ahead time.Duration) bool { return l.written-ahead > maxBack }
