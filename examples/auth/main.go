// Command auth is a server that only callers with an access token may use, and a stub of an authorization server in the same program, so that nobody needs an account anywhere.
// A client that speaks OAuth signs in by itself at http://127.0.0.1:8080/mcp: a real authorization server asks its user first, and all else is the same. By hand:
//
//	$ go run ./examples/auth
//	$ curl -si http://127.0.0.1:8080/mcp | grep -i ^www-authenticate
//	Www-Authenticate: Bearer resource_metadata="http://127.0.0.1:...
//	$ curl -s http://127.0.0.1:8080/.well-known/oauth-protected-resource/mcp
//	{"resource":"http://127.0.0.1:...
//	$ TOKEN="Bearer $(curl -s -d scope=files:read http://127.0.0.1:8080/id/ada)" go run ./examples/try tools/call '{"name":"read"}'
//	{"content":[{"type":"text","text":"ada reads"}]}
//	$ TOKEN="Bearer $(curl -s -d scope=files:read http://127.0.0.1:8080/id/ada)" go run ./examples/try tools/call '{"name":"write"}'
//	403 {"code":-32600,"message":"the access token lacks a scope","data":{"scopes":["files:read","files:write"]}}
//	$ TOKEN="Bearer $(curl -s -d 'scope=files:read files:write' http://127.0.0.1:8080/id/ada)" go run ./examples/try tools/call '{"name":"write"}'
//	{"content":[{"type":"text","text":"ada writes"}]}
package main

import (
	"cmp"
	"context"
	"log"
	"net"
	"net/http"
	"os"
	"os/signal"
	"syscall"
	"time"

	"github.com/troupe-run/troupe"
	"github.com/troupe-run/troupe/auth"
	"github.com/troupe-run/troupe/mcp"
)

func main() {
	ln, err := net.Listen("tcp", cmp.Or(os.Getenv("LISTEN"), "127.0.0.1:8080"))
	if err != nil {
		log.Fatal(err)
	}
	here := "http://" + ln.Addr().String()
	id := newStub(here, here+"/mcp")

	rt, err := troupe.New(troupe.Options{Auth: &auth.Config{
		Issuers:   []auth.Issuer{{URL: id.url}},
		PublicURL: here,
	}})
	if err != nil {
		log.Fatal(err)
	}
	srv := troupe.NewServer(mcp.Implementation{Name: "files", Version: "1.0.0"}, &troupe.ServerOptions{Scopes: []string{"files:read"}})
	troupe.AddTool(srv, troupe.Tool{Name: "read", Description: "Reads."}, does("reads"))
	troupe.AddTool(srv, troupe.Tool{Name: "write", Description: "Writes.", Scopes: []string{"files:write"}}, does("writes"))
	rt.Mount("/mcp", srv)

	mux := http.NewServeMux()
	mux.Handle("/", rt)
	id.routes(mux)
	hs := &http.Server{Handler: mux, ReadHeaderTimeout: 10 * time.Second}
	go func() { log.Fatal(hs.Serve(ln)) }()
	log.Printf("serving %s/mcp", here)

	told, stop := signal.NotifyContext(context.Background(), os.Interrupt, syscall.SIGTERM)
	defer stop()
	<-told.Done()
	ctx, cancel := context.WithTimeout(context.Background(), time.Minute)
	defer cancel()
	if err := rt.Close(ctx); err != nil {
		log.Print(err)
	}
}

// does is a tool that says who does what.
func does(what string) func(context.Context, *troupe.Call, struct{}) (string, error) {
	return func(_ context.Context, call *troupe.Call, _ struct{}) (string, error) {
		return call.Principal().Subject + " " + what, nil
	}
}
