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
	var calls sync.WaitGroup
	err := s.read(in, func(id json.RawMessage, message []byte) {
		if id == nil {
			handle(of, srv, id, message)
			return
		}
		calls.Go(func() { s.send(handle(of, srv, id, message)) })
	})
	end()
	calls.Wait()
	return errors.Join(err, <-written)
}

// read reads messages until the input ends.
func (s *session) read(in io.Reader, handle func(id json.RawMessage, message []byte)) error {
	lines := bufio.NewReader(in)
	for {
		line, err := lines.ReadBytes('\n')
		if errors.Is(err, io.EOF) {
			return nil
		}
		if err != nil {
			return err
		}
		var m struct {
			ID            json.RawMessage `json:"id"`
			Method        string          `json:"method"`
			Result, Error json.RawMessage
		}
		switch {
		case len(bytes.TrimSpace(line)) == 0:
		case json.Unmarshal(line, &m) == nil && m.Method == "" && m.ID != nil:
			s.answered(string(m.ID), m.Result, m.Error)
		default:
			handle(m.ID, line)
		}
	}
}

// handle has the server handle a message, and returns its answer.
func handle(ctx context.Context, srv *server.MCPServer, id json.RawMessage, message []byte) (answer any) {
	defer func() {
		if r := recover(); r != nil {
			answer = mcp.NewJSONRPCError(mcp.NewRequestId(id), mcp.INTERNAL_ERROR, fmt.Sprintf("the handler panicked: %v", r), nil)
		}
	}()
	return srv.HandleMessage(ctx, message) // nil for what has no answer
}
