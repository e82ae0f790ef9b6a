package origin

import (
	"context"
	"net/http"
)

type key struct{}

// With returns ctx for Runtime.ServePipe, which serves each message as if r had brought it.
// r must not change afterwards.
func With(ctx context.Context, r *http.Request) context.Context {
	return context.WithValue(ctx, key{}, r)
}

// From returns the request that ctx carries, nil if there is none.
func From(ctx context.Context) *http.Request {
	r, _ := ctx.Value(key{}).(*http.Request)
	return r
}
