// Command resources has one resource, a template for more, and a tool that changes
// them and notifies the clients that have subscribed.
//
//	$ go run ./examples/resources
//	$ go run ./examples/try resources/read '{"uri":"notes://all"}' resources/read '{"uri":"notes://2"}'
//	{"contents":[{"uri":"notes://all","mimeType":"text/plain","text":"notes://1"}]}
//	{"code":-32002,"message":"resource not found","data":{"uri":"notes://2"}}
//	$ go run ./examples/try resources/subscribe '{"uri":"notes://1"}' tools/call '{"name":"write","arguments":{"id":"1","text":"buy bread"}}' listen 1 resources/read '{"uri":"notes://1"}'
//	{}
//	{"content":[{"type":"text","text":"written"}]}
//	notifications/resources/updated {"uri":"notes://1"}
//	{"contents":[{"uri":"notes://1","mimeType":"text/plain","text":"buy bread"}]}
package main

import (
	"context"
	"fmt"
	"log"
	"os"
	"sync"

	"github.com/troupe-run/troupe"
	"github.com/troupe-run/troupe/mcp"
)

func main() {
	var notes sync.Map // id to text
	notes.Store("1", "buy milk")
	srv := troupe.NewServer(mcp.Implementation{Name: "resources", Version: "1.0.0"}, nil)
	troupe.AddResource(srv, mcp.Resource{URI: "notes://all", Name: "all", Description: "Where the notes are."},
		func(_ context.Context, _ *troupe.Call, uri string, _ map[string]string) (all []mcp.ResourceContents, err error) {
			notes.Range(func(id, _ any) bool {
				all = append(all, mcp.TextResource(uri, "text/plain", fmt.Sprintf("notes://%s", id)))
				return true
			})
			return all, nil
		})
	troupe.AddResourceTemplate(srv, mcp.ResourceTemplate{URITemplate: "notes://{id}", Name: "note"},
		func(_ context.Context, _ *troupe.Call, uri string, vars map[string]string) ([]mcp.ResourceContents, error) {
			text, ok := notes.Load(vars["id"])
			if !ok {
				return nil, troupe.ErrNotFound
			}
			return []mcp.ResourceContents{mcp.TextResource(uri, "text/plain", text.(string))}, nil
		})
	troupe.AddTool(srv, troupe.Tool{Name: "write", Description: "Writes a note."},
		func(_ context.Context, _ *troupe.Call, in map[string]string) (string, error) {
			notes.Store(in["id"], in["text"])
			srv.ResourceUpdated("notes://" + in["id"])
			return "written", nil
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
