// Command mcpgo has fifty servers behind one address, each for callers with its token, with mcp-go. At SIGTERM it
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
	"time"

	"github.com/mark3labs/mcp-go/mcp"
	"github.com/mark3labs/mcp-go/server"
)

type callerKey struct{}

// authenticated lets in requests with the token of a tenant: "tenant-7" for /7/mcp.
func authenticated(next http.Handler) http.Handler {
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		tenant := "tenant-" + strings.Trim(path.Dir(r.URL.Path), "/")
		if r.Header.Get("Authorization") != "Bearer "+tenant {
			w.Header().Set("WWW-Authenticate", "Bearer")
			http.Error(w, "no token of this server", http.StatusUnauthorized)
			return
		}
		next.ServeHTTP(w, r.WithContext(context.WithValue(r.Context(), callerKey{}, tenant)))
	})
}

func whoami(ctx context.Context, _ mcp.CallToolRequest) (*mcp.CallToolResult, error) {
	caller, _ := ctx.Value(callerKey{}).(string)
	return mcp.NewToolResultText(caller), nil
}

func main() {
	mux := http.NewServeMux()
	for i := range 50 {
		srv := server.NewMCPServer(fmt.Sprint("tenant-", i), "1.0.0", server.WithToolCapabilities(false))
		srv.AddTool(mcp.NewTool("whoami", mcp.WithDescription("Says who calls.")), whoami)
		mux.Handle(fmt.Sprintf("/%d/mcp", i), server.NewStreamableHTTPServer(srv))
	}
	hs := &http.Server{Addr: os.Getenv("LISTEN"), Handler: authenticated(mux)}
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt, syscall.SIGTERM)
	defer stop()
	ended := make(chan error, 1)
	go func() {
		<-ctx.Done()
		wait, cancel := context.WithTimeout(context.Background(), 30*time.Second)
		defer cancel()
		ended <- hs.Shutdown(wait)
	}()
	if err := hs.ListenAndServe(); !errors.Is(err, http.ErrServerClosed) {
		log.Fatal(err)
	}
	if err := <-ended; err != nil {
		log.Fatal(err)
	}
}
