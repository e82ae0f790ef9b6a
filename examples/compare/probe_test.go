package compare

import (
	"context"
	"errors"
	"fmt"
	"net/http"
	"os"
	"strings"
	"testing"
	"time"

	"github.com/google/jsonschema-go/jsonschema"
	mcpgo "github.com/mark3labs/mcp-go/mcp"
	"github.com/mark3labs/mcp-go/server"
	"github.com/modelcontextprotocol/go-sdk/auth"
	"github.com/modelcontextprotocol/go-sdk/mcp"

	"github.com/troupe-run/troupe"
	troupemcp "github.com/troupe-run/troupe/mcp"
)

// libraries are what is compared, by the names of the programs' directories.
var libraries = []string{"troupe", "gosdk", "mcpgo"}

// patience is how long a test waits for what must come, so that one which hangs ends.
const patience = 5 * time.Minute

// A probe is a server with one of the libraries, by which tests find out what it does. Its tools:
//
//	boom  panics
//	wait  reports progress once and then waits, but in a process that has RELEASED in its environment
//	long  waits like wait, and is a task at once where the library makes tasks of calls
//	take  takes a number from 1 to 10 and tells what it was given
type probe struct {
	library   string
	dir       string             // the data directory, for troupe
	newest    bool               // go-sdk: its mode for 2026-07-28
	recovery  bool               // mcp-go: WithRecovery
	validate  bool               // mcp-go: WithInputSchemaValidation
	old       bool               // without 2026-07-28
	stateful  bool               // mcp-go: WithStateful
	origin    string             // an origin that pages may call from
	tokens    bool               // callers need a token: tokenNamed
	gosdkLog  mcp.EventStore     // nil means one of its own
	mcpgoLog  server.EventStore  // the same
	closeWith func(func() error) // gets the function that ends it
}

// number is the argument of take.
type number struct {
	N int `json:"n" form:"min=1;max=10"`
}

// tokenNamed returns the name in a token such as token-ada.
func tokenNamed(token string) (string, error) {
	name, ok := strings.CutPrefix(token, "token-")
	if !ok {
		return "", errors.New("no token")
	}
	return name, nil
}

// waits returns when the process has been released from the start, or the call ends.
func waits(ctx context.Context) (string, error) {
	if os.Getenv("RELEASED") == "" {
		<-ctx.Done()
		return "", context.Cause(ctx)
	}
	return "done", nil
}

// handler makes the probe's server.
func (p probe) handler() (http.Handler, error) {
	switch p.library {
	case "troupe":
		return p.troupe()
	case "gosdk":
		return p.gosdk()
	case "mcpgo":
		return p.mcpgo()
	}
	return nil, fmt.Errorf("no library %q", p.library)
}

func (p probe) troupe() (http.Handler, error) {
	srv := troupe.NewServer(troupemcp.Implementation{Name: "probe", Version: "1.0.0"}, nil)
	troupe.AddTool(srv, troupe.Tool{Name: "boom", Description: "Panics."},
		func(context.Context, *troupe.Call, struct{}) (string, error) { panic("boom") })
	wait := func(ctx context.Context, call *troupe.Call, _ struct{}) (string, error) {
		_ = call.Progress(ctx, 1, 2, "waits")
		return waits(ctx)
	}
	troupe.AddTool(srv, troupe.Tool{Name: "wait", Description: "Waits.", Rerun: troupe.Safe}, wait)
	troupe.AddTool(srv, troupe.Tool{Name: "long", Description: "Waits.", Rerun: troupe.Safe, TaskAfter: time.Millisecond}, wait)
	troupe.AddTool(srv, troupe.Tool{Name: "take", Description: "Takes a number."},
		func(_ context.Context, _ *troupe.Call, in number) (string, error) {
			return fmt.Sprint("took ", in.N), nil
		})
	o := troupe.Options{Dir: p.dir}
	if p.origin != "" {
		o.HTTP.AllowOrigins = []string{p.origin}
	}
	if p.old {
		o.Revisions = []troupemcp.Revision{troupemcp.Revision20250618, troupemcp.Revision20251125}
	}
	if p.tokens {
		o.Authenticate = func(r *http.Request) (troupe.Principal, error) {
			name, err := tokenNamed(strings.TrimPrefix(r.Header.Get("Authorization"), "Bearer "))
			return troupe.Principal{Issuer: "tokens", Subject: name}, err
		}
	}
	rt, err := troupe.New(o)
	if err != nil {
		return nil, err
	}
	if p.closeWith != nil {
		p.closeWith(func() error { return rt.Close(context.Background()) })
	}
	rt.Mount("/mcp", srv)
	return rt, nil
}

func (p probe) gosdk() (http.Handler, error) {
	text := func(s string) *mcp.CallToolResult {
		return &mcp.CallToolResult{Content: []mcp.Content{&mcp.TextContent{Text: s}}}
	}
	o := &mcp.ServerOptions{}
	if p.old {
		o.SupportedProtocolVersions = []string{"2025-06-18", "2025-11-25"}
	}
	srv := mcp.NewServer(&mcp.Implementation{Name: "probe", Version: "1.0.0"}, o)
	mcp.AddTool(srv, &mcp.Tool{Name: "boom", Description: "Panics."},
		func(context.Context, *mcp.CallToolRequest, struct{}) (*mcp.CallToolResult, any, error) { panic("boom") })
	mcp.AddTool(srv, &mcp.Tool{Name: "wait", Description: "Waits."},
		func(ctx context.Context, req *mcp.CallToolRequest, _ struct{}) (*mcp.CallToolResult, any, error) {
			_ = req.Session.NotifyProgress(ctx, &mcp.ProgressNotificationParams{ProgressToken: req.Params.GetProgressToken(), Progress: 1, Total: 2})
			s, err := waits(ctx)
			return text(s), nil, err
		})
	schema, err := jsonschema.For[number](nil)
	if err != nil {
		return nil, err
	}
	schema.Properties["n"].Minimum, schema.Properties["n"].Maximum = jsonschema.Ptr(1.0), jsonschema.Ptr(10.0)
	mcp.AddTool(srv, &mcp.Tool{Name: "take", Description: "Takes a number.", InputSchema: schema},
		func(_ context.Context, _ *mcp.CallToolRequest, in number) (*mcp.CallToolResult, any, error) {
			return text(fmt.Sprint("took ", in.N)), nil, nil
		})
	if p.gosdkLog == nil {
		p.gosdkLog = mcp.NewMemoryEventStore(nil)
	}
	var h http.Handler = mcp.NewStreamableHTTPHandler(func(*http.Request) *mcp.Server { return srv },
		&mcp.StreamableHTTPOptions{Stateless: p.newest, EventStore: p.gosdkLog})
	if p.tokens {
		h = auth.RequireBearerToken(func(_ context.Context, token string, _ *http.Request) (*auth.TokenInfo, error) {
			name, err := tokenNamed(token)
			if err != nil {
				return nil, auth.ErrInvalidToken
			}
			return &auth.TokenInfo{UserID: name, Expiration: time.Now().Add(time.Hour)}, nil
		}, nil)(h)
	}
	mux := http.NewServeMux()
	mux.Handle("/mcp", h)
	return mux, nil
}

func (p probe) mcpgo() (http.Handler, error) {
	var options []server.ServerOption
	if p.recovery {
		options = append(options, server.WithRecovery())
	}
	if p.validate {
		options = append(options, server.WithInputSchemaValidation())
	}
	srv := server.NewMCPServer("probe", "1.0.0", options...)
	srv.AddTool(mcpgo.NewTool("boom", mcpgo.WithDescription("Panics.")),
		func(context.Context, mcpgo.CallToolRequest) (*mcpgo.CallToolResult, error) { panic("boom") })
	srv.AddTool(mcpgo.NewTool("wait", mcpgo.WithDescription("Waits.")),
		func(ctx context.Context, req mcpgo.CallToolRequest) (*mcpgo.CallToolResult, error) {
			_ = server.ServerFromContext(ctx).SendNotificationToClient(ctx, "notifications/progress",
				map[string]any{"progressToken": req.Params.Meta.ProgressToken, "progress": 1, "total": 2})
			s, err := waits(ctx)
			return mcpgo.NewToolResultText(s), err
		})
	srv.AddTool(mcpgo.NewTool("take", mcpgo.WithDescription("Takes a number."), mcpgo.WithInteger("n", mcpgo.Required(), mcpgo.Min(1), mcpgo.Max(10))),
		mcpgo.NewTypedToolHandler(func(_ context.Context, _ mcpgo.CallToolRequest, in number) (*mcpgo.CallToolResult, error) {
			return mcpgo.NewToolResultText(fmt.Sprint("took ", in.N)), nil
		}))
	if p.mcpgoLog == nil {
		p.mcpgoLog = server.NewInMemoryEventStore()
	}
	over := []server.StreamableHTTPOption{server.WithEventStore(p.mcpgoLog)}
	if p.stateful {
		over = append(over, server.WithStateful(true))
	}
	if p.origin != "" {
		over = append(over, server.WithStreamableHTTPCORS(server.WithCORSAllowedOrigins(p.origin)))
	}
	if p.old {
		over = append(over, server.WithStreamableHTTPProtocolVersions("2025-06-18", "2025-11-25"))
	}
	var h http.Handler = server.NewStreamableHTTPServer(srv, over...)
	if p.tokens {
		inner := h
		h = http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
			if _, err := tokenNamed(strings.TrimPrefix(r.Header.Get("Authorization"), "Bearer ")); err != nil {
				w.WriteHeader(http.StatusUnauthorized)
				return
			}
			inner.ServeHTTP(w, r)
		})
	}
	mux := http.NewServeMux()
	mux.Handle("/mcp", h)
	return mux, nil
}

// programs is the directory of the programs that tests have built.
var programs string

// TestMain is the program of a probe where PROBE is set, for tests that kill it.
func TestMain(m *testing.M) {
	library := os.Getenv("PROBE")
	if library == "" {
		os.Exit(tests(m))
	}
	h, err := probe{library: library, dir: os.Getenv("DATA"), recovery: os.Getenv("RECOVERY") != "", stateful: os.Getenv("STATEFUL") != ""}.handler()
	if err == nil {
		err = http.ListenAndServe(os.Getenv("LISTEN"), h)
	}
	fmt.Fprintln(os.Stderr, err)
	os.Exit(1)
}

// tests runs the tests.
func tests(m *testing.M) int {
	dir, err := os.MkdirTemp("", "compare-")
	if err != nil {
		fmt.Fprintln(os.Stderr, err)
		return 1
	}
	defer os.RemoveAll(dir)
	programs = dir
	return m.Run()
}
