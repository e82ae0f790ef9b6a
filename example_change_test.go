package troupe_test

import (
	"bufio"
	"context"
	"errors"
	"fmt"
	"net/http"
	"strings"

	"github.com/troupe-run/troupe"
	"github.com/troupe-run/troupe/mcp"
)

// listen opens the session's own stream. The function it returns prints the next
// message there.
func (v *exampleClient) listen() (next func()) {
	req, _ := http.NewRequest(http.MethodGet, v.web.URL+"/mcp", nil)
	req.Header.Set("Accept", "text/event-stream")
	req.Header.Set("Mcp-Session-Id", v.session)
	res, err := v.web.Client().Do(req)
	if err != nil {
		panic(err)
	}
	v.stream = res.Body
	lines := bufio.NewScanner(res.Body)
	return func() {
		for lines.Scan() {
			if data, ok := strings.CutPrefix(lines.Text(), "data: "); ok {
				v.print([]byte(data))
				return
			}
		}
	}
}

func ExampleServer_ResourceUpdated() {
	srv := troupe.NewServer(anyone, nil)
	troupe.AddResource(srv, mcp.Resource{URI: "config://app", Name: "app"},
		func(_ context.Context, _ *troupe.Call, uri string, _ map[string]string) ([]mcp.ResourceContents, error) {
			return []mcp.ResourceContents{mcp.TextResource(uri, "text/plain", "debug=on")}, nil
		})

	v := visit(srv, `{}`)
	defer v.close()
	next := v.listen()
	v.request("resources/subscribe", `{"uri":"config://app"}`)
	srv.ResourceUpdated("config://app")
	next()
	// Output:
	// {}
	// notifications/resources/updated {"uri":"config://app"}
}

func ExampleServer_RemoveTools() {
	srv := troupe.NewServer(anyone, nil)
	for _, name := range []string{"saw", "drill"} {
		troupe.AddTool(srv, troupe.Tool{Name: name, InputSchema: []byte(`{"type":"object"}`)},
			func(context.Context, *troupe.Call, struct{}) (string, error) { return "", nil })
	}

	v := visit(srv, `{}`)
	defer v.close()
	next := v.listen()
	srv.RemoveTools("saw")
	next()
	v.request("tools/list", `{}`)
	// Output:
	// notifications/tools/list_changed
	// {"tools":[{"name":"drill","inputSchema":{"type":"object"}}]}
}

func ExampleServerOptions_subscribe() {
	srv := troupe.NewServer(anyone, &troupe.ServerOptions{
		Subscribe: func(_ context.Context, _ *troupe.Call, uri string) error {
			if !strings.HasPrefix(uri, "config://") {
				return mcp.NewError(mcp.CodeInvalidParams, "only config can be subscribed to")
			}
			return nil
		},
	})
	troupe.AddResource(srv, mcp.Resource{URI: "log://today", Name: "today"},
		func(context.Context, *troupe.Call, string, map[string]string) ([]mcp.ResourceContents, error) {
			return nil, nil
		})

	v := visit(srv, `{}`)
	defer v.close()
	v.request("resources/subscribe", `{"uri":"log://today"}`)
	// Output:
	// {"code":-32602,"message":"only config can be subscribed to"}
}

func ExamplePeer_Log() {
	srv := troupe.NewServer(anyone, nil)
	peers := make(chan *troupe.Peer, 1)
	troupe.AddTool(srv, troupe.Tool{Name: "start"},
		func(_ context.Context, call *troupe.Call, _ struct{}) (string, error) {
			peers <- call.Peer() // may be kept when the call has ended
			return "started", nil
		})

	v := visit(srv, `{}`)
	defer v.close()
	next := v.listen()
	v.request("tools/call", `{"name":"start"}`)
	if err := (<-peers).Log(context.Background(), mcp.LevelNotice, "job", "done"); err != nil {
		panic(err)
	}
	next()
	// Output:
	// {"content":[{"type":"text","text":"started"}]}
	// notifications/message {"level":"notice","logger":"job","data":"done"}
}

// The cause of a call's context says what has ended the call.
func ExampleErrCancelled() {
	started, ended := make(chan struct{}), make(chan error)
	srv := troupe.NewServer(anyone, nil)
	troupe.AddTool(srv, troupe.Tool{Name: "wait"},
		func(ctx context.Context, _ *troupe.Call, _ struct{}) (string, error) {
			close(started)
			<-ctx.Done()
			ended <- context.Cause(ctx)
			return "", context.Cause(ctx)
		})

	v := visit(srv, `{}`)
	defer v.close()
	go v.post(`{"jsonrpc":"2.0","id":1,"method":"tools/call","params":{"name":"wait"}}`)
	<-started
	v.post(`{"jsonrpc":"2.0","method":"notifications/cancelled","params":{"requestId":1}}`).Body.Close()
	if errors.Is(<-ended, troupe.ErrCancelled) {
		fmt.Println("the client has cancelled it")
	}
	// Output:
	// the client has cancelled it
}

// With SubResources, clients that watch a directory get the updates of its files.
func ExampleServerOptions_subResources() {
	srv := troupe.NewServer(anyone, &troupe.ServerOptions{SubResources: true})

	v := visit(srv, `{}`)
	defer v.close()
	next := v.listen()
	v.request("resources/subscribe", `{"uri":"test://docs"}`)
	srv.ResourceUpdated("test://docs/intro.md")
	next()
	// Output:
	// {}
	// notifications/resources/updated {"uri":"test://docs/intro.md"}
}
