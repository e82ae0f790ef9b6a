package greed

import (
	"context"
	"fmt"
	"io"
	"math/rand/v2"
	"net/http"
	"time"
)

// herd is no part of All: its streams need a store that holds them all.
var herd = Attack{
	Name: "herd", What: "resume 100 streams of 3.9 MB at once, and again until each has come as a whole",
	workers: 100, together: true,
	begin: resuming(func(p *Principal, h http.Header) {
		p.pause(rand.N(time.Second)) // all of them within a second
		for p.ctx.Err() == nil && !p.whole(h) {
			p.pause(500*time.Millisecond + rand.N(time.Second))
		}
		<-p.ctx.Done()
	}),
}

// whole resumes a stream of 3.9 MB and reports whether all of it came.
func (p *Principal) whole(h http.Header) bool {
	ctx, cancel := context.WithTimeout(p.ctx, 3*patience)
	defer cancel()
	resp := p.begin(ctx, http.MethodGet, "/mcp", h, nil)
	if resp == nil {
		return false
	}
	defer func() { _ = resp.Body.Close() }()
	if resp.StatusCode != http.StatusOK {
		p.note(fmt.Sprint(resp.StatusCode))
		return false
	}
	if _, err := io.CopyN(io.Discard, resp.Body, 3_900_000); err != nil {
		p.note("cut")
		return false
	}
	p.note("whole")
	return true
}
