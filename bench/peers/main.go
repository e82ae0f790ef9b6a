// Command peers serves two tools, echo and count, with one of several libraries, so that troupe can
// be measured beside them. It prints its URL on the first line, and serves until it is stopped. It
// is a separate module, so that Troupe's has none of its dependencies; bench/run builds and
// measures it, and docs/bench.md says what each kind is.
//
//	go -C bench/peers run . --kind gosdk [--listen 127.0.0.1:0] [--size 105] [--data DIR] [--streams]
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

	"github.com/troupe-run/troupe/adapters/gosdk"
	"github.com/troupe-run/troupe/adapters/mcpgo"
)

// options are those of a kind. Each kind has its own.
type options struct {
	size    int    // of the text that a bare kind answers with, in bytes
	data    string // directory for what a Runtime stores; empty keeps it in memory
	streams bool   // the kinds of the Go SDK answer on event streams
}

// A kind serves on a listener until that fails.
type kind func(ln net.Listener, o options) error

var kinds = map[string]kind{
	"adapter-gosdk":   func(ln net.Listener, o options) error { return serveAdapted(ln, o, gosdk.Server(name, gosdkServer())) },
	"adapter-mcpgo":   func(ln net.Listener, o options) error { return serveAdapted(ln, o, mcpgo.Server(name, mcpgoServer())) },
	"bare":            func(ln net.Listener, o options) error { return serveHandler(ln, bareHandler(newConstant(o.size))) },
	"bare-fasthttp":   bareFast,
	"gosdk":           func(ln net.Listener, o options) error { return serveHandler(ln, gosdkHandler(false, o.streams)) },
	"gosdk-stateless": func(ln net.Listener, o options) error { return serveHandler(ln, gosdkHandler(true, o.streams)) },
	"mcp-go":          func(ln net.Listener, _ options) error { return serveHandler(ln, mcpgoHandler()) },
	"troupe-handler":  troupeHandler,
}

// name and version are those that every kind gives itself.
const (
	name    = "peers"
	version = "1.0.0"
)

// path is where every kind serves.
const path = "/mcp"

func main() {
	log.SetFlags(0)
	names := strings.Join(slices.Sorted(maps.Keys(kinds)), ", ")
	of := flag.String("kind", "", "what to serve: "+names)
	listen := flag.String("listen", "127.0.0.1:0", "`address` to listen on; port 0 takes a free one")
	var o options
	flag.IntVar(&o.size, "size", 105, "`bytes` of text in the answers of the bare kinds")
	flag.StringVar(&o.data, "data", "", "`directory` for what a Runtime stores; empty keeps it in memory")
	flag.BoolVar(&o.streams, "streams", false, "have the Go SDK answer on event streams, as it does by default, and not in JSON")
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
	log.Fatal(k(ln, o))
}

// serveHandler serves a handler as a program does that sets nothing.
func serveHandler(ln net.Listener, h http.Handler) error {
	mux := http.NewServeMux()
	mux.Handle(path, h)
	return http.Serve(ln, mux)
}
