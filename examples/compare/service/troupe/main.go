// Command troupe is the service with Troupe: see package compare.
package main

import (
	"context"
	"encoding/json"
	"fmt"
	"log"
	"maps"
	"net/http"
	"os"
	"os/signal"
	"slices"
	"strings"
	"sync"
	"syscall"
	"time"

	"github.com/troupe-run/troupe"
	"github.com/troupe-run/troupe/mcp"
)

// customer is who has a token. The premium ones see more tools.
type customer struct {
	name    string
	premium bool
}

type (
	trip struct {
		City string `json:"city"`
		Days int    `json:"days" form:"min=1;max=30"`
	}
	price struct {
		City string `json:"city"`
		Day  int    `json:"day" form:"min=1;max=10000"`
	}
	offer struct {
		City  string `json:"city"`
		Total int    `json:"total"`
	}
	rows struct {
		Rows int `json:"rows" form:"min=1;max=1000"`
	}
	town struct {
		City string `json:"city"`
	}
	day struct {
		Date string `json:"date" form:"format=date"`
	}
	party struct {
		Guests int `json:"guests" form:"min=1;max=12"`
	}
)

var (
	customers = map[string]customer{"token-ada": {"ada", true}, "token-bob": {"bob", false}}
	base      = "http://" + os.Getenv("LISTEN")
	metadata  = "/.well-known/oauth-protected-resource"

	mu     sync.Mutex // guards prices
	prices = map[string]int{"Bergen": 90, "Madrid": 100, "Oslo": 120}
)

func daily(city string) (int, error) {
	mu.Lock()
	defer mu.Unlock()
	if p, ok := prices[city]; ok {
		return p, nil
	}
	return 0, fmt.Errorf("nobody goes to %s", city)
}

func quote(_ context.Context, _ *troupe.Call, in trip) (offer, error) {
	day, err := daily(in.City)
	return offer{in.City, in.Days * day}, err
}

func scan(ctx context.Context, call *troupe.Call, in rows) (string, error) {
	for n := 1; n <= in.Rows; n++ {
		select {
		case <-ctx.Done():
			return "", context.Cause(ctx)
		case <-time.After(time.Millisecond):
		}
		_ = call.Progress(ctx, float64(n), float64(in.Rows), "")
	}
	return fmt.Sprintf("scanned %d rows", in.Rows), nil
}

func book(ctx context.Context, call *troupe.Call, in town) (string, error) {
	when, did, err := troupe.ElicitAs[day](ctx, call, "Which day?")
	if err != nil || did != mcp.ElicitAccept {
		return "not booked", err
	}
	who, did, err := troupe.ElicitAs[party](ctx, call, "How many guests on "+when.Date+"?")
	if err != nil || did != mcp.ElicitAccept {
		return "not booked", err
	}
	return fmt.Sprintf("booked %s for %d on %s", in.City, who.Guests, when.Date), nil
}

func read(_ context.Context, _ *troupe.Call, uri string, vars map[string]string) ([]mcp.ResourceContents, error) {
	day, err := daily(vars["city"])
	if err != nil {
		return nil, troupe.ErrNotFound
	}
	return []mcp.ResourceContents{mcp.TextResource(uri, "text/plain", fmt.Sprint(day))}, nil
}

func complete(_ context.Context, _ *troupe.Call, p mcp.CompleteParams) (mcp.Completion, error) {
	mu.Lock()
	defer mu.Unlock()
	fits := []string{}
	for _, city := range slices.Sorted(maps.Keys(prices)) {
		if strings.HasPrefix(city, p.Argument.Value) {
			fits = append(fits, city)
		}
	}
	return mcp.NewCompletion(fits), nil
}

func plan(_ context.Context, _ *troupe.Call, args map[string]string) (*mcp.GetPromptResult, error) {
	return &mcp.GetPromptResult{Messages: []mcp.PromptMessage{{Role: mcp.RoleUser, Content: mcp.Text("Plan a trip to " + args["city"] + ".")}}}, nil
}

func visible(p troupe.Principal, item troupe.Item) bool {
	return item.Name != "set_price" || string(p.Claims) == "true"
}

func authenticate(r *http.Request) (troupe.Principal, error) {
	who, ok := customers[strings.TrimPrefix(r.Header.Get("Authorization"), "Bearer ")]
	if !ok {
		return troupe.Principal{}, &troupe.AuthError{Challenge: `Bearer resource_metadata="` + base + metadata + `"`}
	}
	return troupe.Principal{Issuer: "tokens", Subject: who.name, Claims: json.RawMessage(fmt.Sprint(who.premium))}, nil
}

func main() {
	srv := troupe.NewServer(mcp.Implementation{Name: "trips", Version: "1.0.0"}, &troupe.ServerOptions{Complete: complete, Visible: visible})
	readOnly := &mcp.ToolAnnotations{ReadOnlyHint: true}
	troupe.AddTool(srv, troupe.Tool{Name: "quote", Description: "The price of a trip.", Annotations: readOnly}, quote)
	troupe.AddTool(srv, troupe.Tool{Name: "scan", Description: "Looks through all trips.", Annotations: readOnly}, scan)
	troupe.AddTool(srv, troupe.Tool{Name: "book", Description: "Books a trip.", Needs: mcp.CapClientElicitationForm}, book)
	troupe.AddTool(srv, troupe.Tool{Name: "set_price", Description: "Sets the price of a day."},
		func(_ context.Context, _ *troupe.Call, in price) (string, error) {
			mu.Lock()
			prices[in.City] = in.Day
			mu.Unlock()
			srv.ResourceUpdated("price://" + in.City)
			return "set", nil
		})
	troupe.AddResourceTemplate(srv, mcp.ResourceTemplate{URITemplate: "price://{city}", Name: "price"}, read)
	troupe.AddPrompt(srv, troupe.Prompt{Name: "plan", Arguments: []mcp.PromptArgument{{Name: "city", Required: true}}}, plan)

	mux := http.NewServeMux()
	mux.HandleFunc("GET /{$}", func(w http.ResponseWriter, _ *http.Request) { fmt.Fprintln(w, "trips") })
	mux.HandleFunc(metadata, func(w http.ResponseWriter, _ *http.Request) {
		w.Header().Set("Content-Type", "application/json")
		w.Header().Set("Access-Control-Allow-Origin", "*")
		_ = json.NewEncoder(w).Encode(map[string]any{"resource": base + "/mcp", "authorization_servers": []string{"https://login.example.com"}})
	})
	rt, err := troupe.New(troupe.Options{Listen: os.Getenv("LISTEN"), Dir: os.Getenv("DATA"), Authenticate: authenticate, HTTP: troupe.HTTPOptions{Handler: mux}})
	if err != nil {
		log.Fatal(err)
	}
	rt.Mount("/mcp", srv)
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt, syscall.SIGTERM)
	defer stop()
	if err := rt.Serve(ctx); err != nil {
		log.Fatal(err)
	}
}
