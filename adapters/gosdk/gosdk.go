// Package gosdk has Troupe offer a server that is written with the official Go SDK, in the same process:
//
//	srv := mcp.NewServer(&mcp.Implementation{Name: "greeter", Version: "1.0.0"}, nil)
//	troupe.AddBackend(s, "greeter", gosdk.Server("greeter", srv), host.Options{})
//
// Clients of all revisions reach it, in sessions that outlive the process: its streams are resumed, and its calls that may run again do.
// What its handlers keep in memory ends with the process.
package gosdk

import (
	"context"
	"io"

	"github.com/modelcontextprotocol/go-sdk/mcp"
	"github.com/troupe-run/troupe/host"
)

// Server is a server of the SDK as the target of a backend. Each instance is a session of its own at the server, in the older era or in the
// newer one, as its caller is. The name is for logs, and tells the server from others of the process.
func Server(name string, s *mcp.Server) host.Target {
	return host.Serve(name, func(ctx context.Context, in io.Reader, out io.Writer) error {
		// Who hosts it bounds its lines.
		return s.Run(ctx, &mcp.IOTransport{Reader: io.NopCloser(in), Writer: unclosed{out}, MaxLineLength: -1})
	})
}

// unclosed is a writer that its instance closes.
type unclosed struct{ io.Writer }

func (unclosed) Close() error { return nil }
