// Command progress has a tool that reports progress, logs, and ends when its client
// cancels it.
//
//	$ go run ./examples/progress
//	$ go run ./examples/try tools/call '{"name":"copy","arguments":{"files":2},"_meta":{"progressToken":"t"}}'
//	notifications/progress {"progressToken":"t","progress":1,"total":2,"message":"file 1"}
//	notifications/progress {"progressToken":"t","progress":2,"total":2,"message":"file 2"}
//	notifications/message {"level":"info","logger":"copy","data":{"files":2}}
//	{"content":[{"type":"text","text":"copied"}]}
//	$ go run ./examples/try logging/setLevel '{"level":"error"}' tools/call '{"name":"copy","arguments":{"files":1}}'
//	{}
//	{"content":[{"type":"text","text":"copied"}]}
//
// The next call is cancelled after its first message; the server logs why it ended.
//
//	$ go run ./examples/try cancel 1 tools/call '{"name":"copy","arguments":{"files":500},"_meta":{"progressToken":"t"}}'
//	notifications/progress {"progressToken":"t","progress":1,"total":500,"message":"file 1"}
//	cancelled
package main

import (
	"context"
	"fmt"
	"log"
	"os"
	"time"

	"github.com/troupe-run/troupe"
	"github.com/troupe-run/troupe/mcp"
)

func main() {
	srv := troupe.NewServer(mcp.Implementation{Name: "progress", Version: "1.0.0"}, nil)
	troupe.AddTool(srv, troupe.Tool{Name: "copy", Description: "Pretends to copy files."},
		func(ctx context.Context, call *troupe.Call, in struct {
			Files int `json:"files"`
		}) (string, error) {
			for n := 1; n <= in.Files; n++ {
				select {
				case <-time.After(100 * time.Millisecond):
				case <-ctx.Done():
					log.Printf("copy ended: %v", context.Cause(ctx))
					return "", context.Cause(ctx)
				}
				_ = call.Progress(ctx, float64(n), float64(in.Files), fmt.Sprintf("file %d", n)) // sent only if the client asked for progress
			}
			return "copied", call.Log(ctx, mcp.LevelInfo, "copy", map[string]int{"files": in.Files})
		})

	rt, err := troupe.New(troupe.Options{Listen: os.Getenv("LISTEN")}) // if empty, 127.0.0.1:8080
	if err != nil {
		log.Fatal(err)
	}
	rt.Mount("/mcp", srv)
	ln, err := rt.Listen()
	if err != nil {
		log.Fatal(err)
	}
	log.Printf("serving http://%s/mcp", ln.Addr())
	log.Fatal(rt.ServeOn(context.Background(), ln))
}
