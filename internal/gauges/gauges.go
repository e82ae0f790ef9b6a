// Package gauges has the metrics of a process that are read when they are collected.
package gauges

import (
	"sync"
	"time"

	"github.com/troupe-run/troupe/actors"
	"github.com/troupe-run/troupe/cluster"
	"github.com/troupe-run/troupe/internal/backend"
	"github.com/troupe-run/troupe/internal/limits"
	"github.com/troupe-run/troupe/internal/quota"
	"github.com/troupe-run/troupe/internal/revocation"
	"github.com/troupe-run/troupe/internal/store"
	"github.com/troupe-run/troupe/internal/telemetry"
	"github.com/troupe-run/troupe/internal/worker"
)

// Process is what the metrics are read from.
type Process struct {
	Node    *actors.Node
	Store   *cluster.Node
	Tasks   *worker.Pool
	Hits    *limits.Log
	Revoked *revocation.List
	// Backends are the counts of each backend, by its name.
	Backends func() map[string]backend.Counts
	Held     int64 // bytes that may be held in memory for clients

	CertificateEnds func() time.Time     // nil without TLS
	DrainTime       func() time.Duration // since the process has begun to drain, 0 before that
	DrainLimit      time.Duration

	stats storeStats
}

// storeStats is what the store said last. However many metrics are read of it, and however many readers there are, the
// store is asked at most once a second.
type storeStats struct {
	mu     sync.Mutex    // guards the rest
	began  time.Time     // when the last question was put
	asking chan struct{} // closed when the question under way has its answer, nil without one
	last   cluster.Stats
}

// storePatience is how long metrics wait for the store. The store is asked for a second at most, but a connection whose server stands
// still can hold the question up for longer: then there is what was said last, as metrics must be there when the store is not.
const storePatience = 1500 * time.Millisecond

// read returns what the store said last, after a question if that is due; question puts one.
func (s *storeStats) read(question func() cluster.Stats) cluster.Stats {
	s.mu.Lock()
	if s.asking == nil && (s.began.IsZero() || time.Since(s.began) >= time.Second) {
		s.began, s.asking = time.Now(), make(chan struct{})
		go s.ask(question, s.asking)
	}
	asking, left := s.asking, storePatience-time.Since(s.began)
	s.mu.Unlock()
	if asking != nil && left > 0 {
		late := time.NewTimer(left)
		defer late.Stop()
		select {
		case <-asking:
		case <-late.C:
		}
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.last
}

// ask puts a question to the store, and closes answered.
func (s *storeStats) ask(question func() cluster.Stats, answered chan struct{}) {
	said := question()
	s.mu.Lock()
	defer s.mu.Unlock()
	s.last, s.asking = said, nil
	close(answered)
}

// All returns all metrics of p, whose fields do not change any more.
func (p *Process) All() []telemetry.Gauge {
	one := func(f func() int64) func(func(string, int64)) {
		return func(observe func(string, int64)) { observe("", f()) }
	}
	st := p.Node.Stats
	return []telemetry.Gauge{
		{Name: "troupe.actors", Unit: "{actor}", Doc: "Live actors by kind.", Label: "kind", Read: func(observe func(string, int64)) {
			p.Node.Kernel().Kinds(observe)
		}},
		{Name: "troupe.actors.mailbox.deepest", Unit: "{message}", Doc: "Most messages that waited in the mailbox of one actor within the last 10 to 20 seconds.", Read: one(p.Node.Kernel().Deepest)},
		{Name: "troupe.panics", Unit: "{panic}", Doc: "Panics contained so far.", Counter: true, Read: one(p.Node.Kernel().Panics)},
		{Name: "troupe.drain.time", Unit: "s", Doc: "Time since the process has begun to drain, 0 before that.", Read: one(func() int64 { return wholeSeconds(p.DrainTime()) })},
		{Name: "troupe.drain.limit", Unit: "s", Doc: "Time that a drain may take: DrainDelay and DrainWait together.", Read: one(func() int64 { return wholeSeconds(p.DrainLimit) })},
		{Name: "troupe.tls.expires", Unit: "s", Doc: "When the TLS certificate that is served ends, in seconds since 1970; only with TLS.", Read: func(observe func(string, int64)) {
			if p.CertificateEnds != nil {
				observe("", p.CertificateEnds().Unix())
			}
		}},
		{Name: "troupe.backend.instances", Unit: "{instance}", Doc: "Instances of backends, by what they do.", Label: "backend", Second: "state", ReadPairs: func(observe func(string, string, int64)) {
			for name, c := range p.Backends() {
				for state, n := range map[string]int{"starting": c.Starting, "idle": c.Idle, "serving": c.Serving, "stopping": c.Stopping} {
					observe(name, state, int64(n))
				}
			}
		}},
		{Name: "troupe.backend.waiting", Unit: "{call}", Doc: "Calls that wait for an instance of a backend.", Label: "backend", Read: p.eachBackend(func(c backend.Counts) int64 { return int64(c.Waiting) })},
		{Name: "troupe.backend.memory", Unit: "By", Doc: "Bytes that the processes of a backend, with all that they have started, had when they were looked at after the collection before.", Label: "backend", Read: p.eachBackend(func(c backend.Counts) int64 { return c.Memory })},
		{Name: "troupe.calls.in_flight", Unit: "{call}", Doc: "Calls in flight on this node.", Read: one(func() int64 { return int64(st().InFlight) })},
		{Name: "troupe.sessions.active", Unit: "{session}", Doc: "Sessions in this node's memory.", Read: one(func() int64 { return int64(st().Sessions) })},
		{Name: "troupe.streams.open", Unit: "{stream}", Doc: "Event streams that this node writes.", Read: one(func() int64 { return int64(st().Streams) })},
		{Name: "troupe.connections.open", Unit: "{connection}", Doc: "Open event streams with a connection.", Read: one(func() int64 { return int64(st().Connections) })},
		{Name: "troupe.calls.parked", Unit: "{call}", Doc: "Stateless calls that asked for input and wait for their request to be sent again.", Read: one(func() int64 { return int64(st().Parked) })},
		{Name: "troupe.tasks.running", Unit: "{task}", Doc: "Tasks whose handlers run on this node.", Read: one(func() int64 { n, _ := p.Tasks.Counts(); return int64(n) })},
		{Name: "troupe.tasks.waiting", Unit: "{task}", Doc: "Tasks whose handlers wait on this node for their clients.", Read: one(func() int64 { _, n := p.Tasks.Counts(); return int64(n) })},
		{Name: "troupe.tasks.queued", Unit: "{task}", Doc: "Tasks that wait in this node's memory for a place.", Read: one(func() int64 { return int64(p.Tasks.Queued()) })},
		{Name: "troupe.tasks.open", Unit: "{task}", Doc: "Tasks that this node has made or been given, and that have not ended.", Read: one(func() int64 { n, _ := p.Tasks.Open(); return int64(n) })},
		{Name: "troupe.tasks.open.most", Unit: "{task}", Doc: "Those of the principal with most.", Read: one(func() int64 { _, n := p.Tasks.Open(); return int64(n) })},
		{Name: "troupe.tasks.reclaimed", Unit: "{task}", Doc: "Tasks of this node's process before that were taken up at once; with NATS servers only.", Counter: true, Read: one(p.Tasks.Reclaimed)},
		{Name: "troupe.requests.pending", Unit: "{request}", Doc: "Requests to the clients of sessions that have no response yet.", Read: one(func() int64 { return int64(st().Pending) })},
		{Name: "troupe.requests.forwarded", Unit: "{request}", Doc: "Requests that belong to another process of the store and were handed to it.", Counter: true, Read: one(func() int64 { return st().Forwarded })},
		{Name: "troupe.requests.forwarded.broken", Unit: "{request}", Doc: "Requests between processes that were given up because messages were lost or a process was silent.", Counter: true, Read: one(func() int64 { return st().Broken })},
		{Name: "troupe.log.appends", Unit: "{append}", Doc: "Appends to event streams.", Counter: true, Read: one(func() int64 { return st().Appends })},
		{Name: "troupe.log.recent", Unit: "By", Doc: "Bytes appended to event streams within ten seconds, about.", Read: one(func() int64 { return st().Recent })},
		{Name: "troupe.log.waiting", Unit: "{append}", Doc: "Appends that wait because their principals appended much within ten seconds.", Read: one(func() int64 { return st().Pacing })},
		{Name: "troupe.log.cached", Unit: "By", Doc: "Bytes of appends of the last 30 s that are kept in memory for clients that come back.", Read: one(func() int64 { return st().Cache })},
		{Name: "troupe.log.replayed.cached", Unit: "{append}", Doc: "Appends that were replayed from there.", Counter: true, Read: one(func() int64 { return st().Cached })},
		{Name: "troupe.streams.resumed", Unit: "{resume}", Doc: "Requests to resume a stream.", Counter: true, Read: one(func() int64 { return st().Resumes })},
		{Name: "troupe.streams.taken_over", Unit: "{takeover}", Doc: "Streams taken over from a lost writer.", Counter: true, Read: one(func() int64 { return st().Takeovers })},
		{Name: "troupe.streams.taken_over.time", Unit: "ms", Doc: "Time that takeovers took, without the wait for the lease of the lost writer.", Counter: true, Read: one(func() int64 { return st().TakeoverTime.Milliseconds() })},
		{Name: "troupe.streams.attached", Unit: "{attach}", Doc: "Clients that came for a stream that another process of the store writes.", Counter: true, Read: one(func() int64 { return st().Attaches })},
		{Name: "troupe.streams.read_elsewhere", Unit: "{stream}", Doc: "Streams that clients read here and another process of the store writes.", Read: one(func() int64 { return int64(st().Readings) })},
		{Name: "troupe.streams.replaying", Unit: "{stream}", Doc: "Streams whose clients came back, or were left behind, and were not sent yet all that is stored.", Read: one(func() int64 { return st().Replaying })},
		{Name: "troupe.pings.lost", Unit: "{connection}", Doc: "Connections closed because their clients left pings unanswered.", Counter: true, Read: one(func() int64 { return st().LostPings })},
		{Name: "troupe.refusals", Unit: "{refusal}", Doc: "What was refused because of a limit, by reason.", Counter: true, Label: "reason", Read: p.Hits.ObserveRefusals},
		{Name: "troupe.accounts", Unit: "{account}", Doc: "Principals that this node tells apart at the moment.", Read: one(func() int64 { return int64(st().Accounts) })},
		{Name: "troupe.accounts.elsewhere", Unit: "{account}", Doc: "Principals that are held here to what they use of other nodes, once for each of those nodes.", Read: one(p.Node.Accounts().SharesHeard)},
		{Name: "troupe.accounts.overflowed", Unit: "{request}", Doc: "Requests charged to a shared account, because there were too many principals to tell apart.", Counter: true, Read: one(func() int64 { return st().Overflowed })},
		{Name: "troupe.memory.held", Unit: "By", Doc: "Bytes held in memory for clients, by what they are held for.", Label: "kind", Read: func(observe func(string, int64)) {
			for k := range quota.Kinds {
				observe(k.String(), p.Node.Accounts().BytesOf(k))
			}
		}},
		{Name: "troupe.memory.held.most", Unit: "By", Doc: "Bytes held in memory for the principal that holds most.", Read: one(func() int64 { return p.Node.Accounts().MostBytes() })},
		{Name: "troupe.memory.budget", Unit: "By", Doc: "Bytes that may be held in memory for all clients together.", Read: one(func() int64 { return p.Held })},
		{Name: "troupe.store.used", Unit: "By", Doc: "Bytes in use of what is for sessions and for calls in the store.", Label: "budget", Read: p.eachBudget(func(b store.Budget) int64 {
			used, _ := p.Store.Use(b)
			return used
		})},
		{Name: "troupe.store.used.most", Unit: "By", Doc: "Bytes that the principal with most in the store has stored lately.", Label: "budget", Read: p.eachBudget(p.Node.StoredMost)},
		{Name: "troupe.store.budget", Unit: "By", Doc: "Bytes that the store may have for sessions and for calls.", Label: "budget", Read: p.eachBudget(func(b store.Budget) int64 {
			_, limit := p.Store.Use(b)
			return limit
		})},
		{Name: "troupe.revocations", Unit: "{revocation}", Doc: "Revocations that this process knows: of access tokens, by their subject or client.", Read: one(func() int64 { return int64(p.Revoked.Count()) })},
		{Name: "troupe.lease.suspended", Unit: "1", Doc: "1 while the node's lease is not certain.", Read: one(func() int64 { return oneIf(p.Store.Suspended()) })},
		{Name: "troupe.lease.suspended.time", Unit: "ms", Doc: "Time for which the node's lease was not certain.", Counter: true, Read: one(func() int64 { return p.Store.SuspendedFor().Milliseconds() })},
		{Name: "troupe.store.clock.ahead", Unit: "ms", Doc: "By how much the clock of this machine is ahead of that of the NATS servers.", Read: one(func() int64 { return p.Store.Ahead().Milliseconds() })},
		{Name: "troupe.leases", Unit: "{process}", Doc: "Processes of the store by their lease: those that have it, and those whose lease was not renewed in time.", Label: "state", Read: func(observe func(string, int64)) {
			held, late := p.Store.Leases()
			observe("held", int64(held))
			observe("late", int64(late))
		}},
		{Name: "troupe.store.failed", Unit: "1", Doc: "1 while the store cannot write, as when its disk is full.", Read: one(func() int64 { return oneIf(p.Store.Outage() != nil) })},
		{Name: "troupe.store.restarts", Unit: "{restart}", Doc: "Restarts of the store within the process, after writes that failed.", Counter: true, Read: one(func() int64 {
			return int64(p.Store.Restarts())
		})},
		{Name: "troupe.store.reconnects", Unit: "{reconnect}", Doc: "Connections to the store that were lost and made again.", Counter: true, Read: one(func() int64 {
			return int64(p.Store.Reconnects())
		})},
		{Name: "troupe.store.undecided", Unit: "{write}", Doc: "Writes to a replicated store that were sent again, because an earlier one was not decided.", Counter: true, Read: one(func() int64 {
			return int64(p.Store.Undecided())
		})},
		{Name: "troupe.store.concluded", Unit: "{write}", Doc: "Writes to a replicated store that show that something is not there, which a read does not.", Counter: true, Read: one(func() int64 {
			return int64(p.Store.Concluded())
		})},
		{Name: "troupe.store.lost", Unit: "{stream}", Doc: "Streams of the store that were lost while the process ran.", Counter: true, Read: one(func() int64 {
			return int64(p.Store.Lost())
		})},
		{Name: "troupe.store.unreadable", Unit: "{file}", Doc: "Files of the process's store that were missing or could not be read to their end when it was opened.", Counter: true, Read: one(func() int64 {
			return int64(p.Store.Unreadable())
		})},
		{Name: "troupe.mail.messages", Unit: "{message}", Doc: "Messages to and from other processes of the store, by what became of them.", Counter: true, Label: "outcome", Read: func(observe func(string, int64)) {
			s := p.Store.Mail().Stats()
			for outcome, n := range map[string]uint64{"sent": s.Sent, "unsent": s.Unsent, "received": s.Received, "refused": s.Refused, "forged": s.Forged, "replayed": s.Replayed, "missed": s.Gaps} {
				observe(outcome, int64(n))
			}
		}},
		{Name: "troupe.nodes.heard", Unit: "{process}", Doc: "Other processes of the store that were heard within the lease.", Read: one(func() int64 { return int64(p.Store.Mail().Stats().Heard) })},
		{Name: "troupe.store.appends", Unit: "{append}", Doc: "Appends by what became of them in the store.", Counter: true, Label: "outcome", Read: func(observe func(string, int64)) {
			s := p.stats.read(p.Store.Stats)
			for outcome, n := range map[string]uint64{"stored": s.Appends, "fenced": s.AppendFenced, "full": s.AppendFull, "unavailable": s.AppendUnavailable, "refused": s.AppendRefused} {
				observe(outcome, int64(n))
			}
		}},
		{Name: "troupe.store.appends.time", Unit: "ms", Doc: "Time that appends which were stored took.", Counter: true, Read: one(func() int64 { return p.stats.read(p.Store.Stats).AppendTime.Milliseconds() })},
		{Name: "troupe.lease.age", Unit: "ms", Doc: "Time since the node's lease was renewed.", Read: one(func() int64 { return p.stats.read(p.Store.Stats).LeaseAge.Milliseconds() })},
		{Name: "troupe.store.bytes", Unit: "By", Doc: "Bytes in the store.", Label: "stream", Read: p.eachStream(func(s cluster.StreamStats) int64 { return int64(s.Bytes) })},
		{Name: "troupe.store.replicas.missing", Unit: "{replica}", Doc: "Replicas that are away or behind.", Label: "stream", Read: p.eachStream(func(s cluster.StreamStats) int64 { return int64(s.Missing) })},
		{Name: "troupe.store.messages", Unit: "{message}", Doc: "Messages in the store: a session is one of the stream sessions.", Label: "stream", Read: p.eachStream(func(s cluster.StreamStats) int64 { return int64(s.Messages) })},
	}
}

// eachBackend returns the reader of a gauge that has a value for each backend.
func (p *Process) eachBackend(value func(backend.Counts) int64) func(func(string, int64)) {
	return func(observe func(string, int64)) {
		for name, c := range p.Backends() {
			observe(name, value(c))
		}
	}
}

// eachBudget returns the reader of a gauge that has a value for each budget of the store.
func (p *Process) eachBudget(value func(store.Budget) int64) func(func(string, int64)) {
	return func(observe func(string, int64)) {
		observe("sessions", value(store.SessionBudget))
		observe("calls", value(store.EventBudget))
		observe("tasks", value(store.TaskBudget))
	}
}

// eachStream returns the reader of a gauge that has a value for each stream of the store.
func (p *Process) eachStream(value func(cluster.StreamStats) int64) func(func(string, int64)) {
	return func(observe func(string, int64)) {
		for name, s := range p.stats.read(p.Store.Stats).Streams {
			observe(name, value(s))
		}
	}
}

// wholeSeconds are those that d has begun, so that nothing but 0 is shown as 0.
func wholeSeconds(d time.Duration) int64 { return int64((d + time.Second - 1) / time.Second) }

// oneIf is 1 if something is so, and else 0.
func oneIf(is bool) int64 {
	if is {
		return 1
	}
	return 0
}
