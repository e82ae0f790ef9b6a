// Command mux adds an MCP server, below /agents/, to a program that has its own routes,
// middleware and http.Server. Callers need a token. At SIGTERM the program lets calls end,
// or go on in the next process, before it ends.
//
//	$ go run ./examples/mux
//	$ curl -s http://127.0.0.1:8080/
//	my own page
//	$ URL=http://127.0.0.1:8080/agents/mcp go run ./examples/try tools/call '{"name":"whoami"}'
//	401 {"code":-32600,"message":"Unauthorized"}
//	$ URL=http://127.0.0.1:8080/agents/mcp TOKEN='Bearer letmein' go run ./examples/try tools/call '{"name":"whoami"}'
//	{"content":[{"type":"text","text":"ada"}]}
package main

import (
	"cmp"
	"context"
	"crypto/subtle"
	"errors"
	"fmt"
	"log"
	"net"
	"net/http"
	"os"
	"os/signal"
	"syscall"
	"time"

	"github.com/troupe-run/troupe"
	"github.com/troupe-run/troupe/mcp"
)

// authenticate returns the principal of a request. The sessions of other principals do
// not exist for it.
func authenticate(r *http.Request) (troupe.Principal, error) {
	if subtle.ConstantTimeCompare([]byte(r.Header.Get("Authorization")), []byte("Bearer letmein")) == 0 {
		return troupe.Principal{}, errors.New("wrong token")
	}
	return troupe.Principal{Issuer: "tokens", Subject: "ada"}, nil
}

func logged(next http.Handler) http.Handler {
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		log.Print(r.Method, " ", r.URL.Path)
		next.ServeHTTP(w, r)
	})
}

func main() {
	srv := troupe.NewServer(mcp.Implementation{Name: "mux", Version: "1.0.0"}, nil)
	troupe.AddTool(srv, troupe.Tool{Name: "whoami", Description: "Says who calls."},
		func(_ context.Context, call *troupe.Call, _ struct{}) (string, error) {
			return call.Principal().Subject, nil
		})
	rt, err := troupe.New(troupe.Options{Authenticate: authenticate})
	if err != nil {
		log.Fatal(err)
	}
	rt.Mount("/agents/mcp", srv)

	mux := http.NewServeMux()
	mux.HandleFunc("GET /{$}", func(w http.ResponseWriter, _ *http.Request) { fmt.Fprintln(w, "my own page") })
	mux.HandleFunc("GET /ready", func(w http.ResponseWriter, _ *http.Request) {
		if err := rt.Ready(); err != nil {
			http.Error(w, err.Error(), http.StatusServiceUnavailable)
		}
	})
	mux.Handle("/agents/", rt)
	ln, err := net.Listen("tcp", cmp.Or(os.Getenv("LISTEN"), "127.0.0.1:8080"))
	if err != nil {
		log.Fatal(err)
	}
	log.Printf("serving http://%s/", ln.Addr())
	hs := &http.Server{Handler: logged(mux), ReadHeaderTimeout: 10 * time.Second}
	failed := make(chan error, 1)
	go func() { failed <- hs.Serve(ln) }()

	told, stop := signal.NotifyContext(context.Background(), os.Interrupt, syscall.SIGTERM)
	defer stop()
	select {
	case err := <-failed:
		log.Fatal(err)
	case <-told.Done():
	}
	stop() // a second signal ends the program at once
	ctx, cancel := context.WithTimeout(context.Background(), time.Minute)
	defer cancel()
	if err := errors.Join(rt.Drain(ctx), rt.Close(ctx), hs.Shutdown(ctx)); err != nil {
		log.Fatal(err)
	}
}
