// Command roots has a tool that asks for the client's roots. The server asks once in a
// session, and again when the client announces that they have changed.
//
//	$ go run ./examples/roots
//	$ go run ./examples/try answer '{"roots":[{"uri":"file:///src"}]}' tools/call '{"name":"where"}' tools/call '{"name":"where"}' notifications/roots/list_changed '{}' tools/call '{"name":"where"}'
//	roots/list
//	{"content":[{"type":"text","text":"file:///src"}]}
//	{"content":[{"type":"text","text":"file:///src"}]}
//	roots/list
//	{"content":[{"type":"text","text":"file:///src"}]}
package main

import (
	"context"
	"log"
	"os"
	"strings"

	"github.com/troupe-run/troupe"
	"github.com/troupe-run/troupe/mcp"
)

func main() {
	srv := troupe.NewServer(mcp.Implementation{Name: "roots", Version: "1.0.0"}, &troupe.ServerOptions{
		RootsChanged: func(p *troupe.Peer) { log.Printf("the roots of %s have changed", p.Client().Name) },
	})
	troupe.AddTool(srv, troupe.Tool{Name: "where", Description: "Names the roots.", Needs: mcp.CapClientRoots},
		func(ctx context.Context, call *troupe.Call, _ struct{}) (string, error) {
			roots, err := call.Roots(ctx)
			var uris []string
			for _, r := range roots {
				uris = append(uris, r.URI)
			}
			return strings.Join(uris, " "), err
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
