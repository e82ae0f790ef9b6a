// Command apps has a tool whose results a host shows in a page (MCP Apps): how many want tea, and how many coffee. The buttons of
// the page call another tool, which no model sees. A host without the extension shows the text.
//
//	$ go run ./examples/apps
//	$ go run ./examples/try tools/list '{}'
//	{"tools":[{"name":"drinks",...
//	$ go run ./examples/try resources/list '{}'
//	{"resources":[{"uri":"ui://drinks/votes","name":"votes","mimeType":"text/html;profile=mcp-app",...
//	$ go run ./examples/try tools/call '{"name":"vote","arguments":{"drink":"tea"}}'
//	{"content":[{"type":"text","text":"{\"tea\":1,\"coffee\":0}"}],"structuredContent":{"tea":1,"coffee":0}}
package main

import (
	"context"
	_ "embed"
	"fmt"
	"log"
	"os"
	"sync/atomic"

	"github.com/troupe-run/troupe"
	"github.com/troupe-run/troupe/mcp"
)

//go:embed votes.html
var page string

type votes struct {
	Tea    int64 `json:"tea"`
	Coffee int64 `json:"coffee"`
}

func main() {
	var tea, coffee atomic.Int64
	count := func() votes { return votes{tea.Load(), coffee.Load()} }

	srv := troupe.NewServer(mcp.Implementation{Name: "apps", Version: "1.0.0"}, nil)
	const uri = "ui://drinks/votes"
	troupe.AddPage(srv, troupe.Page{URI: uri, Name: "votes", HTML: page, Border: new(true)})
	troupe.AddTool(srv, troupe.Tool{Name: "drinks", Description: "Says how many want which drink.", UI: troupe.UI{Page: uri}},
		func(context.Context, *troupe.Call, struct{}) (votes, error) { return count(), nil })
	troupe.AddTool(srv, troupe.Tool{Name: "vote", Description: "Counts a vote.", UI: troupe.UI{Page: uri, For: []mcp.UIAudience{mcp.UIApp}}},
		func(_ context.Context, _ *troupe.Call, in struct {
			Drink string `json:"drink" jsonschema:"tea or coffee"`
		}) (votes, error) {
			switch in.Drink {
			case "tea":
				tea.Add(1)
			case "coffee":
				coffee.Add(1)
			default:
				return votes{}, fmt.Errorf("there is no %s", in.Drink)
			}
			return count(), nil
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
