package main

import (
	"bytes"
	"io"
	"net/http"
	"slices"

	"github.com/troupe-run/troupe/auth"
)

// The scopes: what every caller needs, and what the tool guarded needs beside it.
const (
	readScope  = "demo:read"
	writeScope = "demo:write"
)

// door refuses what lacks a scope.
type door struct {
	authority *auth.Authority
	resource  *auth.Resource
}

func newDoor(c auth.Config) (*door, error) {
	a, err := auth.New(c)
	if err != nil {
		return nil, err
	}
	return &door{a, a.Resource("/mcp", "everything", nil)}, nil
}

// stepUp refuses calls of the tool guarded without its scope.
func (d *door) stepUp(next http.Handler) http.Handler {
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		v, err := d.authority.Authenticate(r.Context(), r.Header, d.resource, nil)
		if err == nil && r.Method == http.MethodPost && !slices.Contains(v.Scopes, writeScope) {
			body, err := io.ReadAll(http.MaxBytesReader(w, r.Body, 64<<20))
			if err == nil && bytes.Contains(body, []byte(`"guarded"`)) && bytes.Contains(body, []byte(`"tools/call"`)) {
				no := d.authority.Require(v.Scopes, []string{writeScope})
				w.Header().Set("WWW-Authenticate", d.resource.Challenge(no))
				w.Header().Set("Access-Control-Allow-Origin", "*")
				w.Header().Set("Access-Control-Expose-Headers", "WWW-Authenticate, Mcp-Session-Id")
				http.Error(w, no.Text, no.Status)
				return
			}
			r.Body = io.NopCloser(bytes.NewReader(body))
		}
		next.ServeHTTP(w, r)
	})
}
