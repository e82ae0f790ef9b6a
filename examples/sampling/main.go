// Command sampling has a tool that asks the client's model.
//
//	$ go run ./examples/sampling
//	$ go run ./examples/try answer '{"role":"assistant","content":{"type":"text","text":"A cat sat."},"model":"m"}' tools/call '{"name":"shorten","arguments":{"text":"A cat sat on a mat."}}'
//	sampling/createMessage {"messages":[{"role":"user","content":{"type":"text","text":"A cat sat on a mat."}}],"systemPrompt":"You shorten texts.","maxTokens":200}
//	{"content":[{"type":"text","text":"A cat sat."}]}
//	$ go run ./examples/try declare '{}' tools/call '{"name":"shorten","arguments":{"text":"A cat sat on a mat."}}'
//	{"code":-32600,"message":"the client must declare: sampling","data":{"requiredCapabilities":{"sampling":{}}}}
package main

import (
	"context"
	"errors"
	"log"
	"os"

	"github.com/troupe-run/troupe"
	"github.com/troupe-run/troupe/mcp"
)

func main() {
	srv := troupe.NewServer(mcp.Implementation{Name: "sampling", Version: "1.0.0"}, nil)
	troupe.AddTool(srv, troupe.Tool{Name: "shorten", Description: "Shortens a text.", Needs: mcp.CapClientSampling},
		func(ctx context.Context, call *troupe.Call, in struct {
			Text string `json:"text"`
		}) (string, error) {
			r, err := call.Sample(ctx, mcp.CreateMessageParams{
				SystemPrompt: "You shorten texts.",
				Messages:     []mcp.SamplingMessage{{Role: mcp.RoleUser, Content: mcp.Blocks(mcp.Text(in.Text))}},
				MaxTokens:    200,
			})
			if err != nil {
				return "", err
			}
			for _, block := range r.Content.Blocks {
				if text, ok := block.(*mcp.TextContent); ok {
					return text.Text, nil
				}
			}
			return "", errors.New("the model said nothing")
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
