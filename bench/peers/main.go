// Command peers serves one tool, echo, with one of several libraries, so that troupe can be measured beside them. It
// prints its URL on the first line, and serves until it is stopped. It is a separate module, so that Troupe's has none of
// its dependencies; bench/run builds and measures it, and docs/bench.md says what each kind is.
//
//	go -C bench/peers run . --kind gosdk [--listen 127.0.0.1:0] [--size 105]
//
// # Files
//
// From the top; most of what a file uses lies in its own line or below:
//
//	main  the command line
//	bare fasthttp gosdk mcpgo troupe  the kinds
//	constant  the answers of the bare kinds
package main

import (
	"flag"
	"fmt"
	"log"
	"maps"
	"net"
	"net/http"
	"slices"
	"strings"
)

// A kind serves on a listener until that fails. size is the length of the text that a bare kind answers with, in bytes.
type kind func(ln net.Listener, size int) error

var kinds = map[string]kind{
	"bare":            func(ln net.Listener, size int) error { return serve(ln, bare(newConstant(size))) },
	"bare-fasthttp":   bareFast,
	"gosdk":           func(ln net.Listener, _ int) error { return serve(ln, gosdk(false)) },
	"gosdk-stateless": func(ln net.Listener, _ int) error { return serve(ln, gosdk(true)) },
	"mcp-go":          func(ln net.Listener, _ int) error { return serve(ln, mcpgo()) },
	"troupe-handler":  troupeHandler,
}

// name and version are those that every kind gives itself, and about is the description of its tool.
const (
	name    = "peers"
	version = "1.0.0"
	about   = "Returns the text as it is."
)

// path is where every kind serves.
const path = "/mcp"

func main() {
	log.SetFlags(0)
	names := strings.Join(slices.Sorted(maps.Keys(kinds)), ", ")
	of := flag.String("kind", "", "what to serve: "+names)
	listen := flag.String("listen", "127.0.0.1:0", "`address` to listen on; port 0 takes a free one")
	size := flag.Int("size", 105, "`bytes` of text in the answers of the bare kinds")
	flag.Parse()
	k := kinds[*of]
	if k == nil {
		log.Fatalf("kind is %q: want one of %s", *of, names)
	}
	ln, err := net.Listen("tcp", *listen)
	if err != nil {
		log.Fatal(err)
	}
	fmt.Printf("http://%s%s\n", ln.Addr(), path)
	log.Fatal(k(ln, *size))
}

// serve serves a handler as a program does that sets nothing.
func serve(ln net.Listener, h http.Handler) error {
	mux := http.NewServeMux()
	mux.Handle(path, h)
	return http.Serve(ln, mux)
}
