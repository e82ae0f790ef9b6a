// Command durable keeps its sessions, streams and calls in a directory. Start it, start
// a call in another terminal, and while the call counts kill the server in a third, by
// the process number in the server's log:
//
//	go run ./examples/durable
//	go run ./examples/try tools/call '{"name":"count","_meta":{"progressToken":"t"}}'
//	kill -9 NUMBER
//
// Start it again. The client comes back by itself, in its session, and gets the rest.
// The tool count is Safe, so its call runs again, and repeats no message that was sent
// before. The tool once may not run twice: its calls end with error -32010 instead.
package main

import (
	"context"
	"log"
	"os"
	"time"

	"github.com/troupe-run/troupe"
	"github.com/troupe-run/troupe/mcp"
)

func count(ctx context.Context, call *troupe.Call, _ struct{}) (string, error) {
	log.Printf("counting, attempt %d", call.Attempt())
	for n := 1.0; n <= 10; n++ {
		select {
		case <-time.After(400 * time.Millisecond):
		case <-ctx.Done():
			return "", context.Cause(ctx)
		}
		if err := call.Progress(ctx, n, 10, ""); err != nil {
			return "", err
		}
	}
	return "counted to 10", nil
}

func main() {
	srv := troupe.NewServer(mcp.Implementation{Name: "durable", Version: "1.0.0"}, nil)
	troupe.AddTool(srv, troupe.Tool{Name: "count", Description: "Counts to 10.", Rerun: troupe.Safe}, count)
	troupe.AddTool(srv, troupe.Tool{Name: "once", Description: "Counts to 10, but once.", Rerun: troupe.Never}, count)

	rt, err := troupe.New(troupe.Options{Dir: "durable-data", Listen: os.Getenv("LISTEN")}) // if empty, 127.0.0.1:8080
	if err != nil {
		log.Fatal(err)
	}
	rt.Mount("/mcp", srv)
	ln, err := rt.Listen()
	if err != nil {
		log.Fatal(err)
	}
	log.Printf("process %d is serving http://%s/mcp", os.Getpid(), ln.Addr())
	log.Fatal(rt.ServeOn(context.Background(), ln))
}
