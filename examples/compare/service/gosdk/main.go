// Command gosdk is the service with the official Go SDK: see package compare.
package main

import (
	"context"
	"crypto/hmac"
	"crypto/rand"
	"crypto/sha256"
	"encoding/hex"
	"errors"
	"fmt"
	"log"
	"maps"
	"net/http"
	"os"
	"os/signal"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"syscall"
	"time"

	"github.com/google/jsonschema-go/jsonschema"
	"github.com/modelcontextprotocol/go-sdk/auth"
	"github.com/modelcontextprotocol/go-sdk/mcp"
	"github.com/modelcontextprotocol/go-sdk/oauthex"
)

// customer is who has a token. The premium ones see more tools.
type customer struct {
	name    string
	premium bool
}

type (
	trip struct {
		City string `json:"city"`
		Days int    `json:"days"`
	}
	price struct {
		City string `json:"city"`
		Day  int    `json:"day"`
	}
	offer struct {
		City  string `json:"city"`
		Total int    `json:"total"`
	}
	rows struct {
		Rows int `json:"rows"`
	}
	town struct {
		City string `json:"city"`
	}
)

var (
	customers = map[string]customer{"token-ada": {"ada", true}, "token-bob": {"bob", false}}
	servers   = map[string]*mcp.Server{} // by the name of the customer
	base      = "http://" + os.Getenv("LISTEN")
	key       = []byte(rand.Text())
	dayForm   = object("date", &jsonschema.Schema{Type: "string", Format: "date"})
	partyForm = object("guests", &jsonschema.Schema{Type: "integer", Minimum: jsonschema.Ptr(1.0), Maximum: jsonschema.Ptr(12.0)})

	mu     sync.Mutex // guards prices
	prices = map[string]int{"Bergen": 90, "Madrid": 100, "Oslo": 120}
)

func object(property string, schema *jsonschema.Schema) *jsonschema.Schema {
	return &jsonschema.Schema{Type: "object", Required: []string{property}, Properties: map[string]*jsonschema.Schema{property: schema}}
}

// bounded is the schema of T, with bounds of one of its properties.
func bounded[T any](property string, low, high float64) *jsonschema.Schema {
	s, err := jsonschema.For[T](nil)
	if err != nil {
		log.Fatal(err)
	}
	s.Properties[property].Minimum, s.Properties[property].Maximum = &low, &high
	return s
}

func text(s string) *mcp.CallToolResult {
	return &mcp.CallToolResult{Content: []mcp.Content{&mcp.TextContent{Text: s}}}
}

func daily(city string) (int, error) {
	mu.Lock()
	defer mu.Unlock()
	if p, ok := prices[city]; ok {
		return p, nil
	}
	return 0, fmt.Errorf("nobody goes to %s", city)
}

func quote(_ context.Context, _ *mcp.CallToolRequest, in trip) (*mcp.CallToolResult, offer, error) {
	day, err := daily(in.City)
	return nil, offer{in.City, in.Days * day}, err
}

func scan(ctx context.Context, req *mcp.CallToolRequest, in rows) (*mcp.CallToolResult, any, error) {
	for n := 1; n <= in.Rows; n++ {
		select {
		case <-ctx.Done():
			return nil, nil, context.Cause(ctx)
		case <-time.After(time.Millisecond):
		}
		if token := req.Params.GetProgressToken(); token != nil {
			_ = req.Session.NotifyProgress(ctx, &mcp.ProgressNotificationParams{ProgressToken: token, Progress: float64(n), Total: float64(in.Rows)})
		}
	}
	return text(fmt.Sprintf("scanned %d rows", in.Rows)), nil, nil
}

func sign(date string) string {
	m := hmac.New(sha256.New, key)
	m.Write([]byte(date))
	return hex.EncodeToString(m.Sum(nil)) + date
}

func signed(state string) (date string, ok bool) {
	if len(state) < 2*sha256.Size {
		return "", false
	}
	date = state[2*sha256.Size:]
	return date, hmac.Equal([]byte(state), []byte(sign(date)))
}

// ask returns the answer to a question, or the result that asks it: a client of 2026-07-28 then calls again with its answer.
func ask(ctx context.Context, req *mcp.CallToolRequest, name, message, state string, form *jsonschema.Schema) (*mcp.ElicitResult, *mcp.CallToolResult, error) {
	p := &mcp.ElicitParams{Mode: "form", Message: message, RequestedSchema: form}
	if req.ProtocolVersion() < "2026-07-28" {
		answer, err := req.Session.Elicit(ctx, p)
		return answer, nil, err
	}
	if answer, ok := req.Params.InputResponses[name].(*mcp.ElicitResult); ok {
		return answer, nil, nil
	}
	return nil, &mcp.CallToolResult{RequestState: state, InputRequests: mcp.InputRequestMap{name: p}}, nil
}

// book asks twice. The day goes through a client of 2026-07-28, which could change it, and is signed.
func book(ctx context.Context, req *mcp.CallToolRequest, in town) (*mcp.CallToolResult, any, error) {
	date, ok := signed(req.Params.RequestState)
	if !ok {
		when, question, err := ask(ctx, req, "day", "Which day?", "", dayForm)
		if question != nil || err != nil {
			return question, nil, err
		}
		if date, ok = when.Content["date"].(string); when.Action != "accept" || !ok {
			return text("not booked"), nil, nil
		}
	}
	who, question, err := ask(ctx, req, "party", "How many guests on "+date+"?", sign(date), partyForm)
	if question != nil || err != nil {
		return question, nil, err
	}
	guests, ok := who.Content["guests"].(float64)
	if who.Action != "accept" || !ok {
		return text("not booked"), nil, nil
	}
	return text(fmt.Sprintf("booked %s for %g on %s", in.City, guests, date)), nil, nil
}

func setPrice(ctx context.Context, _ *mcp.CallToolRequest, in price) (*mcp.CallToolResult, any, error) {
	mu.Lock()
	prices[in.City] = in.Day
	mu.Unlock()
	for _, srv := range servers {
		if err := srv.ResourceUpdated(ctx, &mcp.ResourceUpdatedNotificationParams{URI: "price://" + in.City}); err != nil {
			return nil, nil, err
		}
	}
	return text("set"), nil, nil
}

func read(_ context.Context, req *mcp.ReadResourceRequest) (*mcp.ReadResourceResult, error) {
	day, err := daily(strings.TrimPrefix(req.Params.URI, "price://"))
	if err != nil {
		return nil, mcp.ResourceNotFoundError(req.Params.URI)
	}
	return &mcp.ReadResourceResult{Contents: []*mcp.ResourceContents{{URI: req.Params.URI, MIMEType: "text/plain", Text: fmt.Sprint(day)}}}, nil
}

func complete(_ context.Context, req *mcp.CompleteRequest) (*mcp.CompleteResult, error) {
	mu.Lock()
	defer mu.Unlock()
	fits := []string{}
	for _, city := range slices.Sorted(maps.Keys(prices)) {
		if strings.HasPrefix(city, req.Params.Argument.Value) {
			fits = append(fits, city)
		}
	}
	return &mcp.CompleteResult{Completion: mcp.CompletionResultDetails{Values: fits, Total: len(fits)}}, nil
}

func plan(_ context.Context, req *mcp.GetPromptRequest) (*mcp.GetPromptResult, error) {
	return &mcp.GetPromptResult{Messages: []*mcp.PromptMessage{{Role: "user", Content: &mcp.TextContent{Text: "Plan a trip to " + req.Params.Arguments["city"] + "."}}}}, nil
}

// serverFor is the server of a customer.
func serverFor(who customer) *mcp.Server {
	yes := func(context.Context, *mcp.SubscribeRequest) error { return nil }
	no := func(context.Context, *mcp.UnsubscribeRequest) error { return nil }
	srv := mcp.NewServer(&mcp.Implementation{Name: "trips", Version: "1.0.0"},
		&mcp.ServerOptions{CompletionHandler: complete, SubscribeHandler: yes, UnsubscribeHandler: no})
	mcp.AddTool(srv, &mcp.Tool{Name: "quote", Description: "The price of a trip.", InputSchema: bounded[trip]("days", 1, 30),
		Annotations: &mcp.ToolAnnotations{ReadOnlyHint: true}}, quote)
	mcp.AddTool(srv, &mcp.Tool{Name: "scan", Description: "Looks through all trips.", InputSchema: bounded[rows]("rows", 1, 1000),
		Annotations: &mcp.ToolAnnotations{ReadOnlyHint: true}}, scan)
	mcp.AddTool(srv, &mcp.Tool{Name: "book", Description: "Books a trip."}, book)
	if who.premium {
		mcp.AddTool(srv, &mcp.Tool{Name: "set_price", Description: "Sets the price of a day.", InputSchema: bounded[price]("day", 1, 10000)}, setPrice)
	}
	srv.AddResourceTemplate(&mcp.ResourceTemplate{URITemplate: "price://{city}", Name: "price"}, read)
	srv.AddPrompt(&mcp.Prompt{Name: "plan", Arguments: []*mcp.PromptArgument{{Name: "city", Required: true}}}, plan)
	return srv
}

func verify(_ context.Context, token string, _ *http.Request) (*auth.TokenInfo, error) {
	who, ok := customers[token]
	if !ok {
		return nil, auth.ErrInvalidToken
	}
	return &auth.TokenInfo{UserID: who.name, Expiration: time.Now().Add(time.Hour)}, nil
}

func main() {
	for _, who := range customers {
		servers[who.name] = serverFor(who)
	}
	choose := func(r *http.Request) *mcp.Server { return servers[auth.TokenInfoFromContext(r.Context()).UserID] }
	sessions := mcp.NewStreamableHTTPHandler(choose, nil)
	stateless := mcp.NewStreamableHTTPHandler(choose, &mcp.StreamableHTTPOptions{Stateless: true})
	eras := http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if r.Header.Get("MCP-Protocol-Version") >= "2026-07-28" {
			stateless.ServeHTTP(w, r)
		} else {
			sessions.ServeHTTP(w, r)
		}
	})

	var draining atomic.Bool
	mux, metadata := http.NewServeMux(), "/.well-known/oauth-protected-resource"
	mux.Handle("/mcp", auth.RequireBearerToken(verify, &auth.RequireBearerTokenOptions{ResourceMetadataURL: base + metadata})(eras))
	mux.Handle(metadata, auth.ProtectedResourceMetadataHandler(
		&oauthex.ProtectedResourceMetadata{Resource: base + "/mcp", AuthorizationServers: []string{"https://login.example.com"}}))
	mux.HandleFunc("GET /{$}", func(w http.ResponseWriter, _ *http.Request) { fmt.Fprintln(w, "trips") })
	mux.HandleFunc("GET /healthz", func(http.ResponseWriter, *http.Request) {})
	mux.HandleFunc("GET /readyz", func(w http.ResponseWriter, _ *http.Request) {
		if draining.Load() {
			http.Error(w, "draining", http.StatusServiceUnavailable)
		}
	})

	hs := &http.Server{Addr: os.Getenv("LISTEN"), Handler: mux, ReadHeaderTimeout: 10 * time.Second}
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt, syscall.SIGTERM)
	defer stop()
	ended := make(chan error, 1)
	go func() {
		<-ctx.Done()
		draining.Store(true)
		time.Sleep(3 * time.Second) // until the load balancer has noticed
		wait, cancel := context.WithTimeout(context.Background(), 25*time.Second)
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
