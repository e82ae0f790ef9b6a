package main

import (
	"net"

	"github.com/valyala/fasthttp"
)

// bareFast does what [bare] does, on the server of fasthttp.
func bareFast(ln net.Listener, size int) error {
	c := newConstant(size)
	s := fasthttp.Server{
		MaxRequestBodySize: 64 << 20,
		Handler: func(ctx *fasthttp.RequestCtx) {
			body := ctx.PostBody()
			answer := c.answer(ctx.Response.Body()[:0], body)
			if len(answer) == 0 {
				ctx.SetStatusCode(fasthttp.StatusAccepted)
				return
			}
			ctx.SetContentType("application/json")
			ctx.Response.Header.Set("Mcp-Session-Id", "bare")
			ctx.SetBody(answer)
		},
	}
	return s.Serve(ln)
}
