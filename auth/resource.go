package auth

import (
	"bytes"
	"encoding/json"
	"net/url"
	"slices"
	"strings"
)

// wellKnown is where a resource's metadata is, before the path of the resource (RFC 9728, 3).
const wellKnown = "/.well-known/oauth-protected-resource"

// realm stands in challenges without metadata, as one parameter must (RFC 6750, 3).
const realm = `realm="mcp"`

// Resource is a server that tokens protect, as clients are told of it. It does not change.
type Resource struct {
	url      string
	path     string
	names    []string // those by which Identity.Servers may name it
	metadata []byte
	where    string   // the parameter resource_metadata of challenges, or realm
	scope    string   // the parameter scope of those that name the least
	needs    []string // the scopes without which nobody is let in
}

// resourceMetadata is the document of RFC 9728, 2.
type resourceMetadata struct {
	Resource      string   `json:"resource"`
	Issuers       []string `json:"authorization_servers"`
	Scopes        []string `json:"scopes_supported,omitempty"`
	BearerMethods []string `json:"bearer_methods_supported"`
	Name          string   `json:"resource_name,omitempty"`
}

// Resource returns the server at a path of the public URL: "/mcp", or "/" for the URL itself. name is for people, and may be empty. scopes are the least that a client needs there; nil means Config.Scopes. names are
// those by which [Identity].Servers may name the server: an API key that is for others is refused there.
func (a *Authority) Resource(path, name string, scopes []string, names ...string) *Resource {
	var needs []string
	if scopes == nil {
		if scopes = a.config.Scopes; a.config.RequireScopes {
			needs = scopes
		}
	}
	scopes = toAskFor(scopes)
	base, _ := url.Parse(a.config.PublicURL) // as checkConfig has found
	if path = strings.Trim(path, "/"); path != "" {
		base.Path, base.RawPath = base.Path+"/"+path, "" // has no slash at its end
	}
	s := &Resource{url: base.String(), path: wellKnown + base.Path, names: slices.Clone(names), needs: needs}
	document := resourceMetadata{s.url, nil, scopes, []string{"header"}, name}
	for _, i := range a.issuers {
		document.Issuers = append(document.Issuers, i.URL)
	}
	var b bytes.Buffer
	e := json.NewEncoder(&b)
	e.SetEscapeHTML(false)
	_ = e.Encode(document) // strings have no error
	if s.where = realm; len(a.issuers) > 0 {
		s.metadata = b.Bytes()
		s.where = quotedParameter("resource_metadata", base.Scheme+"://"+base.Host+wellKnown+base.EscapedPath())
	}
	s.scope = scopeParameter(scopes)
	return s
}

// URL is the resource identifier: what clients ask tokens for, and what [Authority.Verify] takes. It has no slash at its end.
func (s *Resource) URL() string { return s.url }

// WellKnown is the path of the URL at which clients look for Metadata (RFC 9728, 3.1), as net/http has it in URL.Path.
func (s *Resource) WellKnown() string { return s.path }

// Metadata is the document of RFC 9728, 2, in JSON, nil if there is no issuer that a client could ask. It must not be changed.
func (s *Resource) Metadata() []byte { return s.metadata }

// Challenge is the value of WWW-Authenticate for a refusal (RFC 6750, 3; RFC 9728, 5.1), "" if it has none. It names no error if no credentials came. The scopes are
// those of the refusal, or else the least that a client needs.
func (s *Resource) Challenge(r *Refusal) string {
	if r.Code == "" && r.Reason != ReasonMissing {
		return ""
	}
	var all []string
	if r.Code != "" {
		all = append(all, quotedParameter("error", r.Code), quotedParameter("error_description", r.Text))
	}
	all = append(all, s.where)
	scope := s.scope
	if len(r.Scopes) > 0 {
		scope = scopeParameter(r.Scopes)
	}
	if scope != "" {
		all = append(all, scope)
	}
	return "Bearer " + strings.Join(all, ", ")
}

func scopeParameter(scopes []string) string {
	if len(scopes) == 0 {
		return ""
	}
	return quotedParameter("scope", strings.Join(scopes, " "))
}

var quoting = strings.NewReplacer(`\`, `\\`, `"`, `\"`)

// quotedParameter is a parameter with a quoted string (RFC 9110, 11.2 and 5.6.4).
func quotedParameter(name, value string) string { return name + `="` + quoting.Replace(value) + `"` }
