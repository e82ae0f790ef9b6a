package troupe

// Actors is the number of live actors of a kind.
func (rt *Runtime) Actors(kind string) (n int64) {
	rt.node.Kernel().Kinds(func(k string, live int64) {
		if k == kind {
			n = live
		}
	})
	return n
}

// Stored is the number of messages in a stream of the store, -1 if that does not
// answer.
func (rt *Runtime) Stored(stream string) int64 {
	s, ok := rt.cluster.Stats().Streams[stream]
	if !ok {
		return -1
	}
	return int64(s.Messages)
}

// Held is what the runtime holds for its clients, by name.
func (rt *Runtime) Held() map[string]int {
	s := rt.node.Stats()
	return map[string]int{"calls in flight": s.InFlight, "streams": s.Streams, "sessions": s.Sessions, "connections": s.Connections,
		"questions": s.Questions, "accounts": s.Accounts}
}

// CompiledSchemas is the number of compiled schemas in the process.
func CompiledSchemas() int {
	compiled.mu.Lock()
	defer compiled.mu.Unlock()
	return len(compiled.all)
}

// Appends is the number of appends to event streams so far.
func (rt *Runtime) Appends() int64 { return rt.node.Stats().Appends }

// Refusals is how often a limit was hit.
func (rt *Runtime) Refusals(limit string) (n int64) {
	rt.node.Refusals(func(reason string, count int64) {
		if reason == limit {
			n = count
		}
	})
	return n
}

// LostPings is how many connections were closed for unanswered pings.
func (rt *Runtime) LostPings() int64 { return rt.node.Stats().LostPings }

// Questions is how many questions wait for a client.
func (rt *Runtime) Questions() int { return rt.node.Stats().Questions }

// Health is what /healthz answers.
var Health = health

// WithoutKeys makes what the key ring opens and seals fail with err until the returned
// function is called. No request may be under way.
func (rt *Runtime) WithoutKeys(err error) (back func()) {
	old := rt.keys
	rt.keys = lostKeys{err}
	return func() { rt.keys = old }
}

type lostKeys struct{ err error }

func (k lostKeys) Seal(_, _ []byte) ([]byte, error) { return nil, unreadable(k.err) }
func (k lostKeys) Open(_, _ []byte) ([]byte, error) { return nil, unreadable(k.err) }
