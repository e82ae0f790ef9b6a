package main

import (
	"net"

	"github.com/valyala/fasthttp"
)

// largest is the largest body that fasthttp takes, in bytes. Its default is 4 MiB.
const largest = 64 << 20

// bareFast does what [bareHandler] does, on the server of fasthttp.
func bareFast(ln net.Listener, o options) error {
	c := newConstant(o.size)
	s := fasthttp.Server{
		MaxRequestBodySize: largest,
		Handler: func(ctx *fasthttp.RequestCtx) {
			x := exchanges.Get().(*exchange)
			defer exchanges.Put(x)
			x.answer = c.appendAnswer(x.answer[:0], ctx.PostBody())
			if len(x.answer) == 0 {
				ctx.SetStatusCode(fasthttp.StatusAccepted)
				return
			}
			ctx.SetContentType("application/json")
			ctx.Response.Header.Set("Mcp-Session-Id", "bare")
			ctx.SetBody(x.answer)
		},
	}
	return s.Serve(ln)
}
