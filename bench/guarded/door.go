package main

import (
	"bytes"
	"errors"
	"fmt"
	"io"
	"net/http"
	"slices"

	"github.com/troupe-run/troupe"
	"github.com/troupe-run/troupe/auth"
)

// door lets in who has a token, by package auth alone.
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

// authenticate is troupe.Options.Authenticate.
func (d *door) authenticate(r *http.Request) (troupe.Principal, error) {
	v, err := d.authority.Authenticate(r.Context(), r.Header, d.resource, nil)
	if err == nil {
		if no := d.authority.Require(v.Scopes, []string{readScope}); no != nil {
			err = no
		}
	}
	if no, ok := errors.AsType[*auth.Refusal](err); ok {
		return troupe.Principal{}, &troupe.AuthError{Status: no.Status, Challenge: d.resource.Challenge(no), Err: no}
	}
	if err != nil {
		return troupe.Principal{}, err
	}
	return troupe.Principal{Issuer: v.Issuer, Subject: v.Subject, Client: v.Client, Scopes: v.Scopes, Machine: v.Machine, Expires: v.Expires}, nil
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

// wellKnown serves the metadata.
func (d *door) wellKnown() http.Handler {
	mux := http.NewServeMux()
	document := func(w http.ResponseWriter, text []byte) {
		w.Header().Set("Content-Type", "application/json")
		w.Header().Set("Access-Control-Allow-Origin", "*")
		_, _ = w.Write(text)
	}
	for _, path := range []string{d.resource.WellKnown(), "/.well-known/oauth-protected-resource"} {
		mux.HandleFunc("GET "+path, func(w http.ResponseWriter, _ *http.Request) { document(w, d.resource.Metadata()) })
	}
	mux.HandleFunc("GET /.well-known/oauth-authorization-server", func(w http.ResponseWriter, r *http.Request) {
		text, err := d.authority.IssuerMetadata(r.Context())
		if err != nil {
			http.Error(w, fmt.Sprint(err), http.StatusNotFound)
			return
		}
		document(w, text)
	})
	return mux
}
