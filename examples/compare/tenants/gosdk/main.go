// Command gosdk has fifty servers behind one address, each for callers with its token, with the official Go SDK.
// At SIGTERM it lets calls end.
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

	"github.com/modelcontextprotocol/go-sdk/auth"
	"github.com/modelcontextprotocol/go-sdk/mcp"
)

// verify accepts the token of a tenant: "tenant-7" for /7/mcp.
func verify(_ context.Context, token string, r *http.Request) (*auth.TokenInfo, error) {
	tenant := "tenant-" + strings.Trim(path.Dir(r.URL.Path), "/")
	if token != tenant {
		return nil, auth.ErrInvalidToken
	}
	return &auth.TokenInfo{UserID: tenant, Expiration: time.Now().Add(time.Hour)}, nil
}

func main() {
	mux := http.NewServeMux()
	for i := range 50 {
		srv := mcp.NewServer(&mcp.Implementation{Name: fmt.Sprint("tenant-", i), Version: "1.0.0"}, nil)
		mcp.AddTool(srv, &mcp.Tool{Name: "whoami", Description: "Says who calls."},
			func(_ context.Context, req *mcp.CallToolRequest, _ struct{}) (*mcp.CallToolResult, any, error) {
				return &mcp.CallToolResult{Content: []mcp.Content{&mcp.TextContent{Text: req.Extra.TokenInfo.UserID}}}, nil, nil
			})
		mux.Handle(fmt.Sprintf("/%d/mcp", i), mcp.NewStreamableHTTPHandler(func(*http.Request) *mcp.Server { return srv }, nil))
	}
	hs := &http.Server{Addr: os.Getenv("LISTEN"), Handler: auth.RequireBearerToken(verify, nil)(mux)}
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
