package troupe

import (
	"context"
	"fmt"
	"net/http"
	"sync"
	"sync/atomic"
	"time"

	"github.com/troupe-run/troupe/actors"
	"github.com/troupe-run/troupe/transport/server"
	"github.com/troupe-run/troupe/transport/server/http1"
)

const (
	// lastWords is how long a kept-alive connection must be silent before it may be closed,
	// once new connections are refused: a request may be on its way there.
	lastWords = 100 * time.Millisecond
	// lastRequests bounds the wait for silence, and the time of requests that are not calls.
	lastRequests = time.Second
	// drainLook is how often a drain looks whether it can go on.
	drainLook = 10 * time.Millisecond
)

// Drain lets the calls in flight end, or go on in the next process. It is for a program
// that serves the Runtime with an http.Server of its own: http.Server.Shutdown does not
// know event streams, nor the long calls behind them. Drain does what Serve does at its
// end. Call it first, then Close, and then Shutdown:
//
//	err := rt.Drain(ctx)
//	err = errors.Join(err, rt.Close(ctx), hs.Shutdown(ctx))
//
// From now on [Runtime.Ready] fails, and responses close their connections. For DrainDelay
// the Runtime serves on, so that load balancers notice; there is no delay if no event stream
// is open and Ready was never called. Then Drain waits until no call runs that only this
// process can end. Clients of other calls, and of idle streams, come back to the next
// process. Requests of sessions that come meanwhile are served; new ones of stateless clients (2026-07-28) get 503 with
// Retry-After, as any other process can serve them. When only the last ones are being
// answered, after 1 second at most, further requests are refused with 503. When nothing is left,
// Drain returns nil.
//
// Drain waits for DrainWait, and no longer than ctx. If calls still run or clients are
// still connected then, it returns an error that wraps context.DeadlineExceeded or the
// cause of ctx. Calls that may run again do so when their clients resume them; the others
// have ended with error -32010. Stateless clients cannot resume: two seconds before the end of DrainWait those of calls that may run
// again are told to send them again, with 503 and Retry-After or, once the response is a stream, with an error whose data has
// retryAfterMs. A client that handles tasks has got one in place of such a call when the delay was over: see TaskAutomatic. A second Drain waits for the first, no longer than its own
// ctx, and returns the same. Drain ends the clients of ServePipe, too: later messages of
// theirs get no response. Drain after Close has nothing to wait for.
func (rt *Runtime) Drain(ctx context.Context) error { return rt.drainer.drainCalls(ctx, nil) }

// drainer ends a Runtime without losing calls.
type drainer struct {
	*Runtime
	since      atomic.Pointer[time.Time] // when the drain has begun, nil before that
	under      atomic.Int64              // requests that came since leaving, and are being served
	drained    chan struct{}             // closed when the drain is over
	drainError error                     // what it returned, once drained is closed
	dismiss    sync.Once                 // closes dismissed
	dismissed  chan struct{}             // closed when an operator has the process end
	serves     atomic.Bool               // ServeOn was called, which drains by itself
	kept       bool                      // another process has the socket of Serve, too: see KeepSocket
}

// Dismissed returns a channel that is closed when an operator has this process end, by troupe drain or by Operator. Serve ends by itself then.
// Where the program has an http.Server of its own the Runtime drains, and the program goes on as after its own signal to end: [Runtime.Drain] waits, Close and Shutdown follow.
func (rt *Runtime) Dismissed() <-chan struct{} { return rt.drainer.dismissed }

// dismissServe has Serve end, for an operator, or drains where nothing is served by Serve. It reports false if the process ends already.
func (rt *drainer) dismissServe() (first bool) {
	if !rt.leaving.Load() {
		rt.dismiss.Do(func() { first = true })
	}
	if first {
		rt.log.Info("an operator drains this process")
		close(rt.dismissed)
		if !rt.serves.Load() {
			go func() { _ = rt.Drain(context.Background()) }() // the program's own Drain returns the same
		}
	}
	return first
}

// drainTime is how long the drain has lasted, 0 if there is none.
func (rt *drainer) drainTime() time.Duration {
	since := rt.since.Load()
	if since == nil {
		return 0
	}
	return time.Since(*since)
}

// drainCalls is Drain. door is the listener of Serve, and is shut when no new client may come in;
// it is nil where the program has an http.Server of its own.
func (rt *drainer) drainCalls(ctx context.Context, door *server.Listener) error {
	if rt.leaving.Swap(true) {
		select { // first, whether or not ctx has ended
		case <-rt.drained:
			return rt.drainError
		default:
		}
		select {
		case <-rt.drained:
			return rt.drainError
		case <-ctx.Done():
			return context.Cause(ctx)
		}
	}
	now := time.Now()
	rt.since.Store(&now)
	rt.drainError = rt.finishCalls(ctx, door)
	close(rt.drained)
	return rt.drainError
}

func (rt *drainer) finishCalls(ctx context.Context, door *server.Listener) error {
	rt.ready.Store(false)
	rt.log.Info("draining", "calls", rt.node.Stats().InFlight)
	if rt.opts.HTTP.Draining != nil {
		rt.opts.HTTP.Draining()
	}
	rt.delayDrain(ctx, door)
	patience, cancel := context.WithTimeout(ctx, rt.opts.DrainWait)
	defer cancel()
	kept := door != nil && rt.kept
	var unasked func()
	if door != nil && !kept && actors.HasOthers(rt.node) {
		door.Shut() // other nodes serve whoever finds no door here, and pass on the answers to calls that run here
	}
	if kept {
		unasked = door.Shut // whoever connects now waits for the next process, which nothing but this drain holds up
	}
	rt.node.Finish(patience, !kept, func() bool { return rt.beside.Load() > 0 }, unasked)
	if door != nil {
		door.Shut()
	} else {
		refuse := time.AfterFunc(lastRequests, rt.node.Refuse) // the program's own listener still lets clients in
		defer refuse.Stop()
	}
	running := rt.node.Stats().InFlight > 0
	idle := !running && rt.countConnections(door) == 0
	rt.node.HandOver(patience, rt.silenceCheck(door))
	switch {
	case patience.Err() == nil || idle:
		return nil
	case running:
		return fmt.Errorf("troupe: drain: calls were still running: %w", context.Cause(patience))
	}
	return fmt.Errorf("troupe: drain: clients were still connected: %w", context.Cause(patience))
}

// endServing drains for Serve, and closes the Runtime.
func (rt *drainer) endServing(ctx context.Context, door *server.Listener, front *http1.Front, hs *http.Server) error {
	_ = rt.drainCalls(ctx, door) // it logs the calls that it could not wait for: no error of Serve
	door.Shut()                  // if the program has called Drain, the door is still open
	stop, halt := context.WithTimeout(ctx, 6*time.Second)
	defer halt()
	closed := make(chan struct{})
	go func() {
		defer close(closed)
		if hs.Shutdown(stop) != nil {
			_ = hs.Close()
		}
		if front != nil {
			_ = front.Wait(stop) // that it took too long is no error of Serve
		}
	}()
	end, cancel := context.WithTimeout(ctx, 5*time.Second)
	defer cancel()
	err := rt.Close(end)
	select {
	case <-closed:
	case <-time.After(time.Second):
		_ = hs.Close()
		halt()
		<-closed
	}
	return err
}

// delayDrain waits for DrainDelay, while the Runtime still serves and load balancers notice that
// it is not ready. It returns early when there is no load balancer: no connection is open,
// and no client has ever asked whether the Runtime is ready or healthy.
func (rt *drainer) delayDrain(ctx context.Context, door *server.Listener) {
	for end := time.Now().Add(rt.opts.DrainDelay); time.Now().Before(end) && ctx.Err() == nil && !rt.closed.Load(); {
		if !rt.endpoints.watched.Load() && rt.countConnections(door) == 0 {
			return
		}
		time.Sleep(min(drainLook, time.Until(end)))
	}
}

// countConnections counts the open connections, event streams included. Without a door it counts
// only the streams.
func (rt *drainer) countConnections(door *server.Listener) (n int) {
	if door != nil {
		n = door.Open()
	}
	for _, m := range rt.table.mountedServers() {
		n += m.handler.Streams()
	}
	return n
}

// silenceCheck returns the function that reports that no request will come any more: no connection
// is open, or lastRequests is over. The function closes idle connections once none has had a
// request for lastWords. Without a door the connections are not known: there, no request for
// lastWords counts as silence.
func (rt *drainer) silenceCheck(door *server.Listener) func() bool {
	shut := time.Now()
	return func() bool {
		under := int(rt.under.Load())
		last := time.Since(time.Unix(0, max(rt.asked.Load(), shut.UnixNano())))
		switch {
		case time.Since(shut) > lastRequests:
			return true
		case door == nil:
			return under == 0 && last > lastWords
		case last > lastWords:
			door.CloseIdle()
		}
		return under == 0 && door.Open() == 0
	}
}

// countWhileDraining counts a request that comes during a drain, and makes the client take
// another connection for its next request. The caller calls served when the request was served.
func (rt *drainer) countWhileDraining(w http.ResponseWriter) (served func()) {
	w.Header().Set("Connection", "close")
	rt.under.Add(1)
	rt.asked.Store(time.Now().UnixNano())
	return func() { rt.under.Add(-1) }
}

// lastCallsContext returns a context for the last calls: it ends after DrainWait, and at most
// stdioPatience after the signal.
func (rt *drainer) lastCallsContext(ctx context.Context, signalled bool) (context.Context, context.CancelFunc) {
	wait := rt.opts.DrainWait
	if signalled {
		wait = min(wait, stdioPatience)
	}
	patience, cancel := context.WithTimeout(context.WithoutCancel(ctx), wait)
	stop := func() bool { return false }
	if !signalled {
		stop = context.AfterFunc(ctx, func() { time.AfterFunc(stdioPatience, cancel) })
	}
	return patience, func() { stop(); cancel() }
}
