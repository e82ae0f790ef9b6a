package troupe

import (
	"context"
	"errors"
	"io"
	"os"
	"time"

	"github.com/troupe-run/troupe/actors"
	"github.com/troupe-run/troupe/codec"
	"github.com/troupe-run/troupe/transport"
)

// ServeStdio serves srv to the one client on standard input and output, as hosts
// start servers on their own machine (basic/transports, stdio): one message per
// line, and nothing else on standard output. The session is that of the process.
//
// It returns nil when the client closes standard input, once the calls in flight
// are answered, for which it waits up to DrainWait; questions to the client fail
// from then on. When ctx ends first, as on SIGTERM, calls have a second. Either
// way what still runs ends with -32010. It closes the Runtime before it returns,
// and then standard input may still be read from: end the process.
func (rt *Runtime) ServeStdio(ctx context.Context, srv *Server) error {
	return rt.ServePipe(ctx, srv, os.Stdin, os.Stdout)
}

// stdioPatience is how long calls have to end after SIGTERM: hosts kill a server
// that takes much longer.
const stdioPatience = time.Second

// ServePipe is ServeStdio over in and out, which it does not close.
func (rt *Runtime) ServePipe(ctx context.Context, srv *Server, in io.Reader, out io.Writer) error {
	known, err := rt.serviceOf(srv)
	if err != nil {
		return errors.Join(err, rt.Close(context.WithoutCancel(ctx)))
	}
	svc := known.svc
	pipe := transport.NewPipe(in, out, transport.PipeOptions{
		MaxBody: known.limits.MaxBody, Limits: codec.Limits{MaxDepth: known.limits.MaxDepth, MaxBatch: known.limits.MaxBatch},
		MaxQueued: known.limits.MaxQueued, Log: rt.log, Observer: rt.tel,
	})
	session := actors.Input{Tenant: anonymous, Conn: pipe, Patient: true}
	rt.node.Connect(svc, &session)
	hush := context.AfterFunc(ctx, func() { rt.node.EndInput(svc, &session) }) // a request may wait for its turn
	defer hush()
	err = pipe.Serve(ctx, func(m *codec.Message, line []byte) {
		in := session // Message changes it
		if m.Kind == codec.Request && looksStateless(m) {
			if no := checkMeta(m); no != nil {
				_ = pipe.Room(ctx)
				pipe.Answer(200, codec.AppendError(nil, m.ID, no.Code, no.Message, no.Data))
				return
			}
			in.Stateless = true
		}
		rt.node.Message(svc, &in, nil, m, line)
	})
	signalled := ctx.Err() != nil
	if signalled || errors.Is(err, transport.ErrGone) {
		err = nil // the client, or who started the process, wanted it to end
	}
	patience, cancel := rt.patience(ctx, signalled)
	rt.node.Disconnect(patience, svc, &session)
	cancel()
	end, cancel := context.WithTimeout(context.WithoutCancel(ctx), 5*time.Second)
	defer cancel()
	if pipe.Wait(end) != nil {
		rt.log.Info("the client has not read everything")
	}
	return errors.Join(err, rt.Close(end))
}

// patience is how long the last calls may take: DrainWait, and no more than
// stdioPatience from the signal on.
func (rt *Runtime) patience(ctx context.Context, signalled bool) (context.Context, context.CancelFunc) {
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

// serviceOf is the server as the node knows it, whether or not it is mounted.
func (rt *Runtime) serviceOf(srv *Server) (*service, error) {
	if s := srv.mount.service(); s != nil && s.rt == rt {
		return s, nil
	}
	rt.mu.Lock()
	defer rt.mu.Unlock()
	return rt.serve(srv, "/mcp")
}
