package troupe

import (
	"context"
	"fmt"
	"net/http"
	"time"

	"github.com/troupe-run/troupe/transport"
)

const (
	// lastWords is how long a kept connection has to be silent, once nobody new is
	// let in, until it may be closed: a request may be on its way there.
	lastWords = 100 * time.Millisecond
	// lastRequests bounds that, and how long those may take that are no calls.
	lastRequests = time.Second
	// drainLook is how often a drain looks whether it can go on.
	drainLook = 10 * time.Millisecond
)

// Drain lets the calls that run end, or go on elsewhere, in a program that serves the
// Runtime with an http.Server of its own: http.Server.Shutdown does not know of the
// event streams, and with them of the calls that take long. It does what Serve does
// at its end. Call it first, then Close, and then Shutdown:
//
//	err := rt.Drain(ctx)
//	err = errors.Join(err, rt.Close(ctx), hs.Shutdown(ctx))
//
// From now on the Runtime is not [Runtime.Ready], and its answers say that their
// connections are closed after them. For DrainDelay it serves on, so that load
// balancers notice; that is left out where no event stream is open and Ready was never
// asked. Then it waits until no call runs that only this process can end, and has
// clients of other calls, and of idle streams, come back to the next process. Requests
// that come meanwhile are served; once only the last are being answered, which is
// after a second at most, further ones are refused with 503. When nothing is left it
// returns nil.
//
// It does so for DrainWait, and no longer than ctx. When that is over, and calls still
// run or clients are still connected, it returns an error that wraps
// context.DeadlineExceeded or the cause of ctx: calls that may run again are left to
// whoever resumes them, and the others were ended with error -32010. A second Drain
// waits for the first, no longer than its own ctx, and returns the same. Clients of
// ServePipe are let go, too: what they send afterwards is not answered. Drain after
// Close has nothing to wait for.
func (rt *Runtime) Drain(ctx context.Context) error { return rt.drain(ctx, nil) }

// drain is Drain. door is that of Serve, and is shut once nobody new is to come in; it
// is nil where others let clients in.
func (rt *Runtime) drain(ctx context.Context, door *transport.DrainListener) error {
	if rt.leaving.Swap(true) {
		select { // first, whether or not ctx has ended
		case <-rt.drained:
			return rt.undrained
		default:
		}
		select {
		case <-rt.drained:
			return rt.undrained
		case <-ctx.Done():
			return context.Cause(ctx)
		}
	}
	rt.undrained = rt.finish(ctx, door)
	close(rt.drained)
	return rt.undrained
}

func (rt *Runtime) finish(ctx context.Context, door *transport.DrainListener) error {
	rt.ready.Store(false)
	rt.log.Info("draining", "calls", rt.node.Stats().InFlight)
	rt.delay(ctx, door)
	patience, cancel := context.WithTimeout(ctx, rt.opts.DrainWait)
	defer cancel()
	rt.node.Finish(patience)
	if door != nil {
		door.Shut()
	} else {
		refuse := time.AfterFunc(lastRequests, rt.node.Refuse) // nobody else keeps clients from coming
		defer refuse.Stop()
	}
	running := rt.node.Stats().InFlight > 0
	idle := !running && rt.connections(door) == 0
	rt.node.HandOver(patience, rt.silent(door))
	switch {
	case patience.Err() == nil || idle:
		return nil
	case running:
		return fmt.Errorf("troupe: drain: calls were still running: %w", context.Cause(patience))
	}
	return fmt.Errorf("troupe: drain: clients were still connected: %w", context.Cause(patience))
}

// end drains for Serve, and closes the Runtime.
func (rt *Runtime) end(ctx context.Context, door *transport.DrainListener, hs *http.Server) error {
	_ = rt.drain(ctx, door) // what it could not wait for is logged, and no fault of Serve
	door.Shut()             // another may have drained
	stop, cancel := context.WithTimeout(ctx, 6*time.Second)
	defer cancel()
	closed := make(chan struct{})
	go func() {
		defer close(closed)
		if hs.Shutdown(stop) != nil {
			_ = hs.Close()
		}
	}()
	end, cancel := context.WithTimeout(ctx, 5*time.Second)
	defer cancel()
	err := rt.Close(end)
	select {
	case <-closed:
	case <-time.After(time.Second):
		_ = hs.Close()
		<-closed
	}
	return err
}

// delay serves on for DrainDelay, which is the time that others have to notice that
// the Runtime is not ready. It is cut short when nobody is there to notice: no
// connection is open, and nobody has ever asked whether it is ready or healthy.
func (rt *Runtime) delay(ctx context.Context, door *transport.DrainListener) {
	for end := time.Now().Add(rt.opts.DrainDelay); time.Now().Before(end) && ctx.Err() == nil && !rt.closed.Load(); {
		if !rt.watched.Load() && rt.connections(door) == 0 {
			return
		}
		time.Sleep(min(drainLook, time.Until(end)))
	}
}

// connections are those that are open, event streams included. Without a door only
// the streams are known.
func (rt *Runtime) connections(door *transport.DrainListener) (n int) {
	if door != nil {
		n = door.Open()
	}
	for _, m := range rt.mounted() {
		n += m.handler.Streams()
	}
	return n
}

// silent returns what reports that nothing is to come any more: no connection is open,
// those included that it closes when none has had a request for a while, or the time
// for that is over. Without a door connections are not known, and no request for a
// while has to do.
func (rt *Runtime) silent(door *transport.DrainListener) func() bool {
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
