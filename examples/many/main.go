// Command many has a hundred servers in one Runtime, each with its own limits, and one
// more whose tools add and remove servers while the program serves.
//
//	$ go run ./examples/many
//	$ URL=http://127.0.0.1:8080/shop-7 go run ./examples/try tools/call '{"name":"name"}'
//	{"content":[{"type":"text","text":"shop-7"}]}
//	$ go run ./examples/try tools/call '{"name":"add","arguments":{"id":"shop-100"}}'
//	{"content":[{"type":"text","text":"added shop-100"}]}
//	$ URL=http://127.0.0.1:8080/shop-100 go run ./examples/try tools/call '{"name":"name"}' tools/call '{"name":"name"}' tools/call '{"name":"name"}'
//	{"content":[{"type":"text","text":"shop-100"}]}
//	{"content":[{"type":"text","text":"shop-100"}]}
//	{"code":-32600,"message":"too many calls per second in this session",...
//	$ go run ./examples/try tools/call '{"name":"remove","arguments":{"id":"shop-100"}}'
//	{"content":[{"type":"text","text":"removed: true"}]}
//	$ URL=http://127.0.0.1:8080/shop-100 go run ./examples/try ping '{}'
//	404 404 page not found: GET / names the MCP endpoints
package main

import (
	"context"
	"fmt"
	"log"
	"os"

	"github.com/troupe-run/troupe"
	"github.com/troupe-run/troupe/mcp"
)

type shop struct {
	ID string `json:"id"`
}

// newShop returns a server that lets a session call a tool twice, and then once an hour.
func newShop(id string) (*troupe.Server, error) {
	srv, err := troupe.TryNewServer(mcp.Implementation{Name: id, Version: "1.0.0"},
		&troupe.ServerOptions{ID: id, Limits: troupe.Limits{CallRate: 1. / 3600, CallBurst: 2}})
	if err != nil {
		return nil, err
	}
	troupe.AddTool(srv, troupe.Tool{Name: "name", Description: "Says which shop this is."},
		func(context.Context, *troupe.Call, struct{}) (string, error) { return id, nil })
	return srv, nil
}

// open mounts a shop at a path of its name. The name comes from a client, so that a bad name
// must be an error and not a panic.
func open(rt *troupe.Runtime, id string) error {
	srv, err := newShop(id)
	if err != nil {
		return err
	}
	return rt.TryMount("/"+id, srv)
}

func main() {
	rt, err := troupe.New(troupe.Options{Listen: os.Getenv("LISTEN")}) // if empty, 127.0.0.1:8080
	if err != nil {
		log.Fatal(err)
	}
	for n := range 100 {
		if err := open(rt, fmt.Sprintf("shop-%d", n)); err != nil {
			log.Fatal(err)
		}
	}
	admin := troupe.NewServer(mcp.Implementation{Name: "admin", Version: "1.0.0"}, nil)
	troupe.AddTool(admin, troupe.Tool{Name: "add"}, func(_ context.Context, _ *troupe.Call, in shop) (string, error) {
		if err := open(rt, in.ID); err != nil {
			return "", err
		}
		return "added " + in.ID, nil
	})
	troupe.AddTool(admin, troupe.Tool{Name: "remove"}, func(_ context.Context, _ *troupe.Call, in shop) (string, error) {
		return fmt.Sprintf("removed: %t", rt.Unmount("/"+in.ID)), nil
	})
	rt.Mount("/mcp", admin)
	ln, err := rt.Listen()
	if err != nil {
		log.Fatal(err)
	}
	log.Printf("serving http://%s/mcp", ln.Addr())
	log.Fatal(rt.ServeOn(context.Background(), ln))
}
