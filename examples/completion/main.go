// Command completion completes the arguments of a prompt while the user types them,
// and takes the values of the other arguments into account.
//
//	$ go run ./examples/completion
//	$ go run ./examples/try completion/complete '{"ref":{"type":"ref/prompt","name":"visit"},"argument":{"name":"country","value":"No"}}'
//	{"completion":{"values":["Norway"],"total":1,"hasMore":false}}
//	$ go run ./examples/try completion/complete '{"ref":{"type":"ref/prompt","name":"visit"},"argument":{"name":"city","value":"B"},"context":{"arguments":{"country":"Norway"}}}'
//	{"completion":{"values":["Bergen","Bodø"],"total":2,"hasMore":false}}
package main

import (
	"context"
	"log"
	"os"
	"strings"

	"github.com/troupe-run/troupe"
	"github.com/troupe-run/troupe/mcp"
)

var cities = map[string][]string{"Norway": {"Bergen", "Bodø", "Oslo"}, "Spain": {"Barcelona", "Madrid"}}

func complete(_ context.Context, _ *troupe.Call, p mcp.CompleteParams) (mcp.Completion, error) {
	offers := []string{"Norway", "Spain"}
	if p.Argument.Name == "city" {
		offers = nil
		if p.Context != nil {
			offers = cities[p.Context.Arguments["country"]]
		}
	}
	fits := []string{}
	for _, offer := range offers {
		if strings.HasPrefix(offer, p.Argument.Value) {
			fits = append(fits, offer)
		}
	}
	return mcp.NewCompletion(fits), nil
}

func main() {
	srv := troupe.NewServer(mcp.Implementation{Name: "completion", Version: "1.0.0"}, &troupe.ServerOptions{Complete: complete})
	troupe.AddPrompt(srv, troupe.Prompt{Name: "visit", Arguments: []mcp.PromptArgument{{Name: "country"}, {Name: "city"}}},
		func(_ context.Context, _ *troupe.Call, args map[string]string) (*mcp.GetPromptResult, error) {
			text := mcp.Text("What is there to see in " + args["city"] + ", " + args["country"] + "?")
			return &mcp.GetPromptResult{Messages: []mcp.PromptMessage{{Role: mcp.RoleUser, Content: text}}}, nil
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
