// Command troupe has fifty servers behind one address, each for callers with its token, with Troupe. At SIGTERM it
// lets calls end.
package main

import (
	"context"
	"errors"
	"fmt"
	"log"
	"net/http"
	"os"
	"os/signal"
	"path"
	"strings"
	"syscall"

	"github.com/troupe-run/troupe"
	"github.com/troupe-run/troupe/mcp"
)

// authenticate accepts the token of a tenant: "tenant-7" for /7/mcp.
func authenticate(r *http.Request) (troupe.Principal, error) {
	tenant := "tenant-" + strings.Trim(path.Dir(r.URL.Path), "/")
	if r.Header.Get("Authorization") != "Bearer "+tenant {
		return troupe.Principal{}, errors.New("no token of this server")
	}
	return troupe.Principal{Issuer: "tokens", Subject: tenant}, nil
}

func main() {
	rt, err := troupe.New(troupe.Options{Listen: os.Getenv("LISTEN"), Dir: os.Getenv("DATA"), Authenticate: authenticate})
	if err != nil {
		log.Fatal(err)
	}
	for i := range 50 {
		srv := troupe.NewServer(mcp.Implementation{Name: fmt.Sprint("tenant-", i), Version: "1.0.0"}, nil)
		troupe.AddTool(srv, troupe.Tool{Name: "whoami", Description: "Says who calls."},
			func(_ context.Context, call *troupe.Call, _ struct{}) (string, error) {
				return call.Principal().Subject, nil
			})
		rt.Mount(fmt.Sprintf("/%d/mcp", i), srv)
	}
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt, syscall.SIGTERM)
	defer stop()
	if err := rt.Serve(ctx); err != nil {
		log.Fatal(err)
	}
}
