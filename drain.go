package troupe

import (
	"context"
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

// drain lets calls end, or go on elsewhere, and closes the Runtime: see Serve.
func (rt *Runtime) drain(ctx context.Context, door *transport.Door, hs *http.Server) error {
	rt.ready.Store(false)
	rt.leaving.Store(true)
	rt.log.Info("draining", "calls", rt.node.Stats().InFlight)
	rt.delay(door)
	patience, cancel := context.WithTimeout(ctx, rt.opts.DrainWait)
	defer cancel()
	rt.node.Finish(patience)
	door.Shut()
	rt.node.HandOver(patience, rt.silent(door))

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
// connection is open, and nobody has ever asked for /readyz or /healthz.
func (rt *Runtime) delay(door *transport.Door) {
	for end := time.Now().Add(rt.opts.DrainDelay); time.Now().Before(end); {
		if !rt.watched.Load() && rt.connections(door) == 0 {
			return
		}
		time.Sleep(min(drainLook, time.Until(end)))
	}
}

// connections are those that are open, event streams included.
func (rt *Runtime) connections(door *transport.Door) int {
	n := door.Open()
	for _, m := range rt.mounted() {
		n += m.handler.Streams()
	}
	return n
}

// leave counts a request that came while the Runtime ends, and has the client take
// another connection for its next. What it returns is called when it was served.
func (rt *Runtime) leave(w http.ResponseWriter) (served func()) {
	w.Header().Set("Connection", "close")
	rt.under.Add(1)
	rt.asked.Store(time.Now().UnixNano())
	return func() { rt.under.Add(-1) }
}

// silent returns what reports that nothing is to come any more: no connection is open,
// those included that it closes when none has had a request for a while, or the time
// for that is over.
func (rt *Runtime) silent(door *transport.Door) func() bool {
	shut := time.Now()
	return func() bool {
		under := int(rt.under.Load())
		if time.Since(shut) > lastRequests {
			return true
		}
		if last := time.Unix(0, max(rt.asked.Load(), shut.UnixNano())); time.Since(last) > lastWords {
			door.CloseIdle()
		}
		return under == 0 && door.Open() == 0
	}
}
