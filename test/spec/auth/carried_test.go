package auth_test

import (
	"context"
	"fmt"
	"net/http"
	"testing"
	"testing/synctest"
	"time"

	"github.com/troupe-run/troupe"
	"github.com/troupe-run/troupe/auth"
	"github.com/troupe-run/troupe/mcp"
	"github.com/troupe-run/troupe/test/kit"
	"github.com/troupe-run/troupe/test/kit/issuer"
	"github.com/troupe-run/troupe/test/spec/host"
)

// TestRefusalOfAnotherNode has a call lack a scope on the node that it runs on, while its client is connected to another: that answers with the status and the challenge. The issuer is down by
// then, so that the other node knows the keys by the store alone.
func TestRefusalOfAnotherNode(t *testing.T) {
	id := issuer.At("https://id.example.com")
	o := host.Unhurried
	o.Auth = &auth.Config{Issuers: []auth.Issuer{{URL: id.URL}}, PublicURL: public, Transport: id}
	begin := func(h *host.Host) {
		troupe.AddTool(h.Server, troupe.Tool{Name: "later", Needs: mcp.CapClientElicitationForm}, func(ctx context.Context, call *troupe.Call, _ struct{}) (string, error) {
			if _, err := call.Elicit(ctx, "?", host.Form); err != nil {
				return "", err
			}
			if err := call.Require("files:write"); err != nil {
				return "", err
			}
			return "written at " + call.Node(), nil
		})
		troupe.AddTool(h.Server, troupe.Tool{Name: "write", Scopes: []string{"files:write"}}, nothing)
	}
	host.Fleet(t, 2, o, begin, func(t *testing.T, all []*host.Host) {
		at := func(h *host.Host, token string) *kit.Client {
			c := h.Unchecked()
			c.Header = http.Header{"Authorization": {"Bearer " + token}}
			return c
		}
		wanted := func(what string, a *kit.Answer, metadata string) {
			t.Helper()
			want := map[string]string{"error": "insufficient_scope", "error_description": "the access token lacks a scope", "resource_metadata": metadata, "scope": "files:read files:write"}
			if got := challenge(t, a.Header); a.StatusCode != 403 || fmt.Sprint(got) != fmt.Sprint(want) {
				t.Errorf("%s: %s %v %s, want %v", what, a.Status, got, a.Body, want)
			}
			isRefusal(t, what, a)
		}
		narrow, wide := id.Token("alice", resource, nil), id.Token("alice", resource, issuer.Claims{"scope": "files:read files:write"})
		for name, token := range map[string]string{"narrow": narrow, "wide": wide} {
			s := &host.Stateless{T: t, Client: at(all[0], token), Capabilities: host.EveryCapability}
			a, n := s.Tool("later", `{}`)
			state := s.Parked(a, n, "elicit")
			time.Sleep(time.Second) // the keys are stored after those who wait for them were told
			synctest.Wait()
			id.SetDown(true)
			s.Client = at(all[1], token)
			a, n = s.Tool("later", `{}`, state, host.Given("elicit", "x"))
			if name == "narrow" {
				wanted("a call of the other node", a, where)
			} else if got := s.Done(a, n); got != "written at a" {
				t.Errorf("with the scope it is answered %s", got)
			}
		}
		sse := at(all[0], id.Token("alice", older, nil)).OpenSSE("/sse")
		defer sse.Stream.Close()
		sse.Handshake("2024-11-05", `{}`)
		there := at(all[1], id.Token("alice", older, nil))
		there.URL = sse.Messages
		wanted("a message to the other node's session", there.Post(host.Call("1", "write", `{}`), "Accept", ""), public+"/.well-known/oauth-protected-resource/sse")
	})
}
