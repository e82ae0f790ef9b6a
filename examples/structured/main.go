// Command structured has a typed tool. Troupe infers its input and output schemas from
// Go types, checks arguments before the handler runs, and sends the handler's result as
// structured content, with a text for older clients.
//
//	$ go run ./examples/structured
//	$ go run ./examples/try tools/call '{"name":"weather","arguments":{"city":"Oslo"}}'
//	{"content":[{"type":"text","text":"{\"city\":\"Oslo\",\"celsius\":4.5,\"sunny\":false}"}],"structuredContent":{"city":"Oslo","celsius":4.5,"sunny":false}}
//	$ go run ./examples/try tools/call '{"name":"weather","arguments":{"city":5}}'
//	{"content":[{"type":"text","text":"invalid arguments: at '/city': got number, want string"}],"isError":true}
//	$ go run ./examples/try tools/call '{"name":"weather","arguments":{"city":"Atlantis"}}'
//	{"content":[{"type":"text","text":"no report from Atlantis"}],"isError":true}
package main

import (
	"context"
	"fmt"
	"log"
	"os"

	"github.com/troupe-run/troupe"
	"github.com/troupe-run/troupe/mcp"
)

type place struct {
	City string `json:"city" jsonschema:"where to look"`
}

type weather struct {
	City    string  `json:"city"`
	Celsius float64 `json:"celsius" jsonschema:"degrees in the shade"`
	Sunny   bool    `json:"sunny"`
}

var reports = map[string]weather{"Oslo": {"Oslo", 4.5, false}, "Rome": {"Rome", 21, true}}

func main() {
	srv := troupe.NewServer(mcp.Implementation{Name: "structured", Version: "1.0.0"}, nil)
	troupe.AddTool(srv, troupe.Tool{Name: "weather", Description: "Says how the weather is."},
		func(_ context.Context, _ *troupe.Call, in place) (weather, error) {
			w, ok := reports[in.City]
			if !ok {
				return weather{}, fmt.Errorf("no report from %s", in.City) // the model sees this
			}
			return w, nil
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
