package main

import (
	"fmt"
	"strconv"
	"time"

	"github.com/spf13/cobra"

	"github.com/troupe-run/troupe"
)

// limits are the settings that bound what the server takes on.
type limits struct {
	callRate, principalRate, logRate                      perSecond
	callBurst, principalBurst                             count
	callsPerSession, callsPerPrincipal, callsPerNode      count
	sessionsPerPrincipal                                  count
	streamsPerSession, streamsPerPrincipal                count
	parkedPerSession, parkedPerPrincipal, subscriptions   count
	maxDepth, maxBatch, replayEvents                      count
	maxBody, maxHeader, maxURI, maxQueued, replayBytes    size
	bodyTimeout, writeTimeout, maxCall, maxAsk, replayAge time.Duration
	sessionIdle, sessionMax                               time.Duration
}

// limitGroups are the flags of limits in the order in which the help shows them.
var limitGroups = []flagGroup{
	{"A request", []string{"max-body", "max-header", "max-depth", "max-batch", "max-uri", "body-timeout", "max-call", "max-ask"}},
	{"A session; a number of 0 is no limit", []string{"call-rate", "call-burst", "log-rate", "calls-per-session", "streams-per-session", "parked-per-session",
		"subscriptions-per-session", "session-idle", "session-max"}},
	{"A principal, or an address of those who are nobody in particular; 0 is no limit", []string{"principal-rate", "principal-burst", "calls-per-principal",
		"sessions-per-principal", "streams-per-principal", "parked-per-principal"}},
	{"An event stream", []string{"replay-age", "replay-events", "replay-bytes", "max-queued", "write-timeout"}},
	{"The node", []string{"calls-per-node"}},
}

// register declares the flags of cmd, with the defaults of the library.
func (l *limits) register(cmd *cobra.Command) {
	f := cmd.Flags()
	l.maxBody, l.maxHeader, l.maxURI, l.maxQueued, l.replayBytes = 4<<20, 32<<10, 8<<10, 1<<20, 4<<20
	f.Var(&l.maxBody, "max-body", "most bytes in a request, a `size`")
	f.Var(&l.maxHeader, "max-header", "most bytes in the header of a request, a `size`")
	l.maxDepth, l.maxBatch = 128, 100
	f.Var(&l.maxDepth, "max-depth", "most levels that JSON may nest, a `number` up to 1024")
	f.Var(&l.maxBatch, "max-batch", "most messages in a batch, a `number`")
	f.Var(&l.maxURI, "max-uri", "most bytes in the URI of a resource that a client reads or subscribes to, a `size`")
	f.DurationVar(&l.bodyTimeout, "body-timeout", 30*time.Second, "`time` that the body of a request may take to arrive")
	f.DurationVar(&l.maxCall, "max-call", time.Hour, "`time` that a call may run")
	f.DurationVar(&l.maxAsk, "max-ask", 10*time.Minute, "`time` that a question may wait for the client's answer")

	l.callRate, l.callBurst, l.logRate, l.callsPerSession, l.streamsPerSession, l.parkedPerSession, l.subscriptions = 100, 0, 500, 256, 64, 64, 1000
	f.Var(&l.callRate, "call-rate", "`number` of tool calls and completions per second")
	f.Var(&l.callBurst, "call-burst", "`number` of them that may come at once (twice the rate)")
	f.Var(&l.logRate, "log-rate", "`number` of log messages per second")
	f.Var(&l.callsPerSession, "calls-per-session", "`number` of requests in flight")
	f.Var(&l.streamsPerSession, "streams-per-session", "`number` of event streams with a connection")
	f.Var(&l.parkedPerSession, "parked-per-session", "`number` of questions that wait for the client")
	f.Var(&l.subscriptions, "subscriptions-per-session", "`number` of resources subscribed to")
	f.DurationVar(&l.sessionIdle, "session-idle", 72*time.Hour, "`time` to keep a session that nobody uses")
	f.DurationVar(&l.sessionMax, "session-max", 30*24*time.Hour, "`time` to keep any session")

	l.principalRate, l.principalBurst, l.callsPerPrincipal, l.sessionsPerPrincipal = 1000, 0, 1024, 100_000
	l.streamsPerPrincipal, l.parkedPerPrincipal, l.callsPerNode = 1024, 1024, 10_000
	f.Var(&l.principalRate, "principal-rate", "`number` of tool calls and completions per second")
	f.Var(&l.principalBurst, "principal-burst", "`number` of them that may come at once (twice the rate)")
	f.Var(&l.callsPerPrincipal, "calls-per-principal", "`number` of requests in flight")
	f.Var(&l.sessionsPerPrincipal, "sessions-per-principal", "`number` of sessions begun within --session-idle")
	f.Var(&l.streamsPerPrincipal, "streams-per-principal", "`number` of event streams with a connection")
	f.Var(&l.parkedPerPrincipal, "parked-per-principal", "`number` of questions that wait for a client")
	f.Var(&l.callsPerNode, "calls-per-node", "`number` of requests in flight; 0 is no limit")

	f.DurationVar(&l.replayAge, "replay-age", 10*time.Minute, "`time` for which a client can fetch events it has missed")
	l.replayEvents = 1000
	f.Var(&l.replayEvents, "replay-events", "`number` of appends of them that a stream keeps, up to 1000")
	f.Var(&l.replayBytes, "replay-bytes", "most bytes of them that a stream keeps, a `size`")
	f.Var(&l.maxQueued, "max-queued", "most bytes that wait for a connection, or for the log, a `size`")
	f.DurationVar(&l.writeTimeout, "write-timeout", 30*time.Second, "`time` that a write may wait for a client that does not read")
}

// check refuses limits that mean nothing.
func (l *limits) check() error {
	for _, d := range []struct {
		name         string
		value, least time.Duration
	}{
		{"session-idle", l.sessionIdle, time.Second}, {"session-max", l.sessionMax, time.Second}, {"replay-age", l.replayAge, time.Second},
		{"body-timeout", l.bodyTimeout, time.Millisecond}, {"write-timeout", l.writeTimeout, time.Millisecond},
		{"max-call", l.maxCall, time.Millisecond}, {"max-ask", l.maxAsk, time.Millisecond},
	} {
		if d.value < d.least {
			return fmt.Errorf("%s is %s: it must be at least %s", d.name, d.value, d.least)
		}
	}
	for _, n := range []struct {
		name        string
		value, most count
	}{{"max-depth", l.maxDepth, 1024}, {"max-batch", l.maxBatch, 1 << 20}, {"replay-events", l.replayEvents, 1000}} {
		if n.value < 1 || n.value > n.most {
			return fmt.Errorf("%s is %d: it must be from 1 to %d", n.name, n.value, n.most)
		}
	}
	for _, n := range []struct {
		name  string
		value size
	}{{"max-header", l.maxHeader}, {"max-uri", l.maxURI}, {"max-queued", l.maxQueued}, {"replay-bytes", l.replayBytes}} {
		if n.value > 1<<30 {
			return fmt.Errorf("%s is %s: it must be at most 1GiB", n.name, &n.value)
		}
	}
	return nil
}

// options sets the limits in o, where 0 stands for a default and a negative number
// for no limit.
func (l *limits) options(o *troupe.Options) {
	o.MaxBody, o.MaxHeader, o.MaxDepth, o.MaxBatch = int64(l.maxBody), int(l.maxHeader), int(l.maxDepth), int(l.maxBatch)
	o.MaxURI = int(l.maxURI)
	o.BodyTimeout, o.WriteTimeout, o.MaxQueued = l.bodyTimeout, l.writeTimeout, int(l.maxQueued)
	o.MaxCall, o.MaxAsk, o.SessionIdle, o.SessionMax = l.maxCall, l.maxAsk, l.sessionIdle, l.sessionMax
	o.ReplayAge, o.ReplayEvents, o.ReplayBytes = l.replayAge, int(l.replayEvents), int64(l.replayBytes)
	o.CallRate, o.CallBurst, o.PrincipalRate, o.PrincipalBurst = l.callRate.orNone(), int(l.callBurst), l.principalRate.orNone(), int(l.principalBurst)
	o.CallsPerSession, o.CallsPerPrincipal, o.CallsPerNode = l.callsPerSession.orNone(), l.callsPerPrincipal.orNone(), l.callsPerNode.orNone()
	o.LogRate = l.logRate.orNone()
	o.SessionsPerPrincipal = l.sessionsPerPrincipal.orNone()
	o.StreamsPerSession, o.StreamsPerPrincipal = l.streamsPerSession.orNone(), l.streamsPerPrincipal.orNone()
	o.ParkedPerSession, o.ParkedPerPrincipal = l.parkedPerSession.orNone(), l.parkedPerPrincipal.orNone()
	o.SubscriptionsPerSession = l.subscriptions.orNone()
}

// count is a whole number that is not negative.
type count int

// Set parses text.
func (c *count) Set(text string) error {
	n, err := strconv.ParseInt(text, 10, 32)
	if err != nil || n < 0 {
		return fmt.Errorf("%q is no number: want a whole one from 0 to 2147483647", text)
	}
	*c = count(n)
	return nil
}

func (c *count) String() string { return strconv.Itoa(int(*c)) }

// Type names the kind of the flag.
func (c *count) Type() string { return "number" }

// orNone is the number as the library takes it.
func (c count) orNone() int {
	if c == 0 {
		return -1
	}
	return int(c)
}

// perSecond is a rate.
type perSecond float64

// Set parses text.
func (r *perSecond) Set(text string) error {
	n, err := strconv.ParseFloat(text, 64)
	if err != nil || !(n >= 0 && n <= 1e9) || n > 0 && n < 1e-6 {
		return fmt.Errorf("%q is no rate: want a number per second, such as 100 or 0.5, or 0 for no limit", text)
	}
	*r = perSecond(n)
	return nil
}

func (r *perSecond) String() string { return strconv.FormatFloat(float64(*r), 'f', -1, 64) }

// Type names the kind of the flag.
func (r *perSecond) Type() string { return "rate" }

// orNone is the rate as the library takes it.
func (r perSecond) orNone() float64 {
	if r == 0 {
		return -1
	}
	return float64(r)
}
