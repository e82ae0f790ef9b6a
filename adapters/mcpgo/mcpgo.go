// Package mcpgo has Troupe offer a server that is written with mcp-go, in the same process:
//
//	srv := server.NewMCPServer("greeter", "1.0.0")
//	troupe.AddBackend(s, "greeter", mcpgo.Server("greeter", srv), host.Options{})
//
// Clients of all revisions reach it, in sessions that outlive the process: its streams are resumed, and its calls that may run again do.
// What its handlers keep in memory ends with the process.
package mcpgo

import (
	"bufio"
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"sync"

	"github.com/mark3labs/mcp-go/mcp"
	"github.com/mark3labs/mcp-go/server"
	"github.com/troupe-run/troupe/codec"
	"github.com/troupe-run/troupe/host"
)

// Server is a server of mcp-go as the target of a backend. Each instance is a session of its own at the server; the library's own server
// over standard input and output has one for the whole process. The name is for logs, and tells the server from others of the process.
//
// A handler that panics has its call end with an error.
func Server(name string, s *server.MCPServer) host.Target {
	return host.Serve(name, func(ctx context.Context, in io.Reader, out io.Writer) error { return serve(ctx, s, in, out) })
}

// serve runs one session until in ends, and the handlers then.
func serve(ctx context.Context, srv *server.MCPServer, in io.Reader, out io.Writer) error {
	ctx, end := context.WithCancel(ctx)
	defer end()
	s := newSession(ctx)
	if err := srv.RegisterSession(ctx, s); err != nil {
		return err
	}
	defer srv.UnregisterSession(context.WithoutCancel(ctx), s.id)
	written := make(chan error, 1)
	go func() {
		written <- s.write(out)
		end() // nobody reads what it says
	}()
	of := srv.WithContext(ctx, s)
	calls := handlers{handle: func(r request) { s.send(handle(of, srv, r)) }, waits: make(chan request), one: make(chan struct{}, 1)}
	err := s.read(in, func(r request) {
		if r.id == nil {
			handle(of, srv, r)
			return
		}
		calls.take(ctx, r)
	})
	end()
	calls.running.Wait()
	return errors.Join(err, <-written)
}

// A request is a message of the client, with its raw id, nil for a notification.
type request struct{ id, message []byte }

// handlers handle requests, each at once. One goroutine of those that have handled one stays for the next: to grow the stack of a new one takes a tenth
// of the time of a call.
type handlers struct {
	handle  func(request)
	waits   chan request  // to the one that stays
	one     chan struct{} // taken by it
	running sync.WaitGroup
}

func (h *handlers) take(ctx context.Context, r request) {
	select {
	case h.waits <- r:
		return
	default:
	}
	h.running.Go(func() {
		for {
			h.handle(r)
			r = request{} // which may be large
			select {
			case h.one <- struct{}{}:
			default:
				return
			}
			select {
			case r = <-h.waits:
				<-h.one
			case <-ctx.Done():
				return
			}
		}
	})
}

// read reads messages until the input ends.
func (s *session) read(in io.Reader, handle func(request)) error {
	lines := bufio.NewReader(in)
	for {
		line, err := lines.ReadBytes('\n')
		if errors.Is(err, io.EOF) {
			return nil
		}
		if err != nil {
			return err
		}
		id := codec.Optional(line, "id")
		switch {
		case len(bytes.TrimSpace(line)) == 0:
		case id != nil && codec.Field(line, "method") == nil:
			s.answered(string(id), codec.Field(line, "result"), codec.Field(line, "error"))
		default:
			handle(request{id, line})
		}
	}
}

// handle has the server handle a message, and returns its answer.
func handle(ctx context.Context, srv *server.MCPServer, r request) (answer any) {
	defer func() {
		if p := recover(); p != nil {
			answer = mcp.NewJSONRPCError(mcp.NewRequestId(json.RawMessage(r.id)), mcp.INTERNAL_ERROR, fmt.Sprintf("the handler panicked: %v", p), nil)
		}
	}()
	return srv.HandleMessage(ctx, r.message) // nil for what has no answer
}
