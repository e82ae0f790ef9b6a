// Command prompts has a prompt with arguments. One of them is required.
//
//	$ go run ./examples/prompts
//	$ go run ./examples/try prompts/list '{}'
//	{"prompts":[{"name":"review","title":"Review code","description":"Asks for a review.","arguments":[{"name":"code","description":"What to review","required":true},{"name":"language","description":"What it is written in"}]}]}
//	$ go run ./examples/try prompts/get '{"name":"review","arguments":{"code":"x := 1"}}'
//	{"description":"A review","messages":[{"role":"user","content":{"type":"text","text":"Review this Go code:\nx := 1"}}]}
//	$ go run ./examples/try prompts/get '{"name":"review","arguments":{"language":"Go"}}'
//	{"code":-32602,"message":"missing argument: code"}
package main

import (
	"cmp"
	"context"
	"fmt"
	"log"
	"os"

	"github.com/troupe-run/troupe"
	"github.com/troupe-run/troupe/mcp"
)

func main() {
	srv := troupe.NewServer(mcp.Implementation{Name: "prompts", Version: "1.0.0"}, nil)
	troupe.AddPrompt(srv, troupe.Prompt{
		Name:        "review",
		Title:       "Review code",
		Description: "Asks for a review.",
		Arguments: []mcp.PromptArgument{
			{Name: "code", Description: "What to review", Required: true},
			{Name: "language", Description: "What it is written in"},
		},
	}, func(_ context.Context, _ *troupe.Call, args map[string]string) (*mcp.GetPromptResult, error) {
		text := fmt.Sprintf("Review this %s code:\n%s", cmp.Or(args["language"], "Go"), args["code"])
		return &mcp.GetPromptResult{
			Description: "A review",
			Messages:    []mcp.PromptMessage{{Role: mcp.RoleUser, Content: mcp.Text(text)}},
		}, nil
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
