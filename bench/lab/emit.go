package main

import (
	"context"
	"strings"
	"time"

	"github.com/troupe-run/troupe"
)

type emitInput struct {
	Times int `json:"times"`
	MS    int `json:"ms" jsonschema:"milliseconds behind each event"`
	Bytes int `json:"bytes" jsonschema:"of the result"`
}

// addEmit adds a tool each of whose events says, as its progress, in which microsecond it was
// written, and whose result is as long as one likes.
func addEmit(s *troupe.Server) {
	troupe.AddTool(s, troupe.Tool{Name: "emit", Description: "Writes the time again and again, and then a long text.", Rerun: troupe.Safe},
		func(ctx context.Context, call *troupe.Call, in emitInput) (string, error) {
			for range in.Times {
				if err := call.Progress(ctx, float64(time.Now().UnixMicro()), 0, ""); err != nil {
					return "", err
				}
				select {
				case <-time.After(time.Duration(in.MS) * time.Millisecond):
				case <-ctx.Done():
					return "", context.Cause(ctx)
				}
			}
			return strings.Repeat("x", in.Bytes), nil
		})
}
