// Command host offers a tool of its own beside those of a server that somebody else has written: the command in its
// arguments. With Options.Dir that command would outlive a crash of this program.
//
//	$ go run ./examples/host go run ./examples/stdio stdio
//	$ go run ./examples/try tools/call '{"name":"length","arguments":{"text":"Ada"}}'
//	{"content":[{"type":"text","text":"3"}]}
//	$ go run ./examples/try tools/call '{"name":"theirs__greet","arguments":{"name":"Ada"}}'
//	{"content":[{"type":"text","text":"Hello, Ada!"}]}
package main

import (
	"context"
	"log"
	"os"
	"strconv"

	"github.com/troupe-run/troupe"
	"github.com/troupe-run/troupe/host"
	"github.com/troupe-run/troupe/mcp"
)

func main() {
	host.Main() // first of all: this program is also the parent of the commands that it hosts
	if len(os.Args) < 2 {
		log.Fatal("want the command of a server that speaks over standard input and output, such as: npx -y @modelcontextprotocol/server-everything")
	}
	srv := troupe.NewServer(mcp.Implementation{Name: "host", Version: "1.0.0"}, nil)
	troupe.AddTool(srv, troupe.Tool{Name: "length", Description: "Counts the bytes of a text."},
		func(_ context.Context, _ *troupe.Call, in struct {
			Text string `json:"text"`
		}) (string, error) {
			return strconv.Itoa(len(in.Text)), nil
		})
	troupe.AddBackend(srv, "theirs", host.Command(os.Args[1], os.Args[2:]...), host.Options{Tools: host.Tools{Deny: []string{"delete_*"}}})

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
