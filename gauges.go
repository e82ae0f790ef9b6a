package troupe

import (
	"github.com/troupe-run/troupe/internal/telemetry"

	"github.com/troupe-run/troupe/internal/limits"
)

// gauges are what a runtime tells of itself when metrics are collected.
func (rt *Runtime) gauges() []telemetry.Gauge {
	one := func(f func() int64) func(func(string, int64)) {
		return func(observe func(string, int64)) { observe("", f()) }
	}
	st := rt.node.Stats
	return []telemetry.Gauge{
		{Name: "troupe.actors", Unit: "{actor}", Doc: "Live actors by kind.", Label: "kind", Read: func(observe func(string, int64)) {
			rt.node.Kernel().Kinds(observe)
		}},
		{Name: "troupe.panics", Unit: "{panic}", Doc: "Panics contained so far.", Counter: true, Read: one(rt.node.Kernel().Panics)},
		{Name: "troupe.calls.in_flight", Unit: "{call}", Doc: "Calls in flight on this node.", Read: one(func() int64 { return int64(st().InFlight) })},
		{Name: "troupe.sessions.active", Unit: "{session}", Doc: "Sessions in this node's memory.", Read: one(func() int64 { return int64(st().Sessions) })},
		{Name: "troupe.streams.open", Unit: "{stream}", Doc: "Event streams that this node writes.", Read: one(func() int64 { return int64(st().Streams) })},
		{Name: "troupe.connections.open", Unit: "{connection}", Doc: "Open event streams with a connection.", Read: one(func() int64 { return int64(st().Connections) })},
		{Name: "troupe.calls.parked", Unit: "{question}", Doc: "Questions that wait for a client.", Read: one(func() int64 { return int64(st().Questions) })},
		{Name: "troupe.log.appends", Unit: "{append}", Doc: "Appends to event streams.", Counter: true, Read: one(func() int64 { return st().Appends })},
		{Name: "troupe.streams.resumed", Unit: "{resume}", Doc: "Requests to resume a stream.", Counter: true, Read: one(func() int64 { return st().Resumes })},
		{Name: "troupe.streams.taken_over", Unit: "{takeover}", Doc: "Streams taken over from a lost writer.", Counter: true, Read: one(func() int64 { return st().Takeovers })},
		{Name: "troupe.pings.lost", Unit: "{connection}", Doc: "Connections closed because their clients left pings unanswered.", Counter: true, Read: one(func() int64 { return st().LostPings })},
		{Name: "troupe.refusals", Unit: "{refusal}", Doc: "What was refused because of a limit, by reason.", Counter: true, Label: "reason", Read: func(observe func(string, int64)) {
			rt.node.Refusals(observe)
			observe(limits.MaxURI.Counted, rt.longURI.Load())
		}},
		{Name: "troupe.accounts", Unit: "{account}", Doc: "Principals that this node tells apart at the moment.", Read: one(func() int64 { return int64(st().Accounts) })},
		{Name: "troupe.accounts.overflowed", Unit: "{request}", Doc: "Requests charged to a shared account, because there were too many principals to tell apart.", Counter: true, Read: one(func() int64 { return st().Overflowed })},
		{Name: "troupe.lease.suspended", Unit: "1", Doc: "1 while the node's lease is not certain.", Read: one(func() int64 {
			if rt.cluster.Suspended() {
				return 1
			}
			return 0
		})},
		{Name: "troupe.store.failed", Unit: "1", Doc: "1 while the store cannot write, as when its disk is full.", Read: one(func() int64 {
			if rt.cluster.Outage() != nil {
				return 1
			}
			return 0
		})},
		{Name: "troupe.store.restarts", Unit: "{restart}", Doc: "Restarts of the store within the process, after writes that failed.", Counter: true, Read: one(func() int64 {
			return int64(rt.cluster.Stats().Restarts)
		})},
		{Name: "troupe.store.bytes", Unit: "By", Doc: "Bytes in the store.", Label: "stream", Read: rt.storeBytes},
		{Name: "troupe.store.messages", Unit: "{message}", Doc: "Messages in the store: a session is one of the stream sessions.", Label: "stream", Read: rt.storeMessages},
	}
}

func (rt *Runtime) storeBytes(observe func(string, int64)) {
	for name, s := range rt.cluster.Stats().Streams {
		observe(name, int64(s.Bytes))
	}
}

func (rt *Runtime) storeMessages(observe func(string, int64)) {
	for name, s := range rt.cluster.Stats().Streams {
		observe(name, int64(s.Messages))
	}
}
