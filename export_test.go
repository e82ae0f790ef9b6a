package troupe

// WithoutKeys makes the key ring fail with err until the returned function is called. No
// request may be in flight.
func (rt *Runtime) WithoutKeys(err error) (back func()) {
	old := rt.keys
	rt.keys = lostKeys{err}
	return func() { rt.keys = old }
}

type lostKeys struct{ err error }

func (k lostKeys) Seal(_, _ []byte) ([]byte, error) { return nil, k.err }
func (k lostKeys) Open(_, _ []byte) ([]byte, error) { return nil, k.err }

func (lostKeys) Tag([]byte) []byte { return nil }
