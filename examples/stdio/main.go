// Command stdio serves a server over HTTP. With the argument stdio it serves the same
// server to the program that starts it, over standard input and output, and logs to
// standard error.
//
//	$ go run ./examples/stdio
//	$ go run ./examples/try tools/call '{"name":"greet","arguments":{"name":"Ada"}}'
//	{"content":[{"type":"text","text":"Hello, Ada!"}]}
//	$ go run ./examples/stdio stdio <<'END'
//	{"jsonrpc":"2.0","id":1,"method":"initialize","params":{"protocolVersion":"2025-11-25","capabilities":{},"clientInfo":{"name":"sh","version":"1"}}}
//	{"jsonrpc":"2.0","method":"notifications/initialized"}
//	{"jsonrpc":"2.0","id":2,"method":"tools/call","params":{"name":"greet","arguments":{"name":"Ada"}}}
//	END
//	{"jsonrpc":"2.0","id":1,"result":{"protocolVersion":"2025-11-25"...
//	{"jsonrpc":"2.0","id":2,"result":{"content":[{"type":"text","text":"Hello, Ada!"}]}}
package main

import (
	"context"
	"log"
	"os"

	"github.com/troupe-run/troupe"
	"github.com/troupe-run/troupe/mcp"
)

func main() {
	srv := troupe.NewServer(mcp.Implementation{Name: "stdio", Version: "1.0.0"}, nil)
	troupe.AddTool(srv, troupe.Tool{Name: "greet", Description: "Greets someone."},
		func(_ context.Context, _ *troupe.Call, in struct {
			Name string `json:"name"`
		}) (string, error) {
			return "Hello, " + in.Name + "!", nil
		})
	rt, err := troupe.New(troupe.Options{Listen: os.Getenv("LISTEN")}) // if empty, 127.0.0.1:8080
	if err != nil {
		log.Fatal(err)
	}
	if len(os.Args) > 1 && os.Args[1] == "stdio" {
		if err := rt.ServeStdio(context.Background(), srv); err != nil {
			log.Fatal(err)
		}
		return
	}
	rt.Mount("/mcp", srv)
	ln, err := rt.Listen()
	if err != nil {
		log.Fatal(err)
	}
	log.Printf("serving http://%s/mcp", ln.Addr())
	log.Fatal(rt.ServeOn(context.Background(), ln))
}
