package main

import (
	"cmp"
	"errors"
	"fmt"
	"net"
	"net/netip"
	"net/url"

	"github.com/troupe-run/troupe/auth"
)

// issuers are those of the flags, or else those of the section.
func (s *settings) issuers() (all []auth.Issuer) {
	for _, u := range s.authIssuers {
		all = append(all, auth.Issuer{URL: u, Audiences: s.authAudiences})
	}
	if len(all) > 0 {
		return all
	}
	return s.auth.Issuers
}

// takesTokens reports whether the settings name whose tokens or keys count.
func (s *settings) takesTokens() bool { return s.apiKeys || len(s.issuers()) > 0 }

// authConfig says whose tokens count, nil if none do.
func (s *settings) authConfig() *auth.Config {
	c := &auth.Config{Issuers: s.issuers(), PublicURL: cmp.Or(s.publicURL, s.localURL()), Scopes: s.auth.Scopes, Implies: s.auth.Implies, Claims: s.auth.Claims, AllowAnonymous: s.allowAnonymous}
	if len(s.authScopes) > 0 {
		c.Scopes = s.authScopes
	}
	if s.apiKeys {
		c.APIKeys = auth.StoredKeys
	}
	if !s.takesTokens() {
		if host, _, _ := net.SplitHostPort(s.listen); s.conformance && c.PublicURL != "" && isLoopback(host) { // never for others than this machine
			return fixtureAuth(c.PublicURL)
		}
		return nil
	}
	return c
}

// localURL is the URL of a server that this machine alone reaches, and "" if others do, or its port is not known yet.
func (s *settings) localURL() string {
	host, port, err := net.SplitHostPort(s.listen)
	if err != nil || port == "0" || !isLoopback(host) {
		return ""
	}
	scheme := "http"
	if s.tlsCert != "" {
		scheme = "https"
	}
	return scheme + "://" + s.listen
}

func isLoopback(host string) bool {
	a, err := netip.ParseAddr(host)
	return host == "localhost" || err == nil && a.Unmap().IsLoopback()
}

// checkAuth refuses settings of tokens that contradict others, or that package auth refuses.
func (s *settings) checkAuth() error {
	if len(s.authIssuers) > 0 && len(s.auth.Issuers) > 0 && !s.table.Changed("auth-issuer") {
		return errors.New("auth-issuer and the issuers of auth exclude each other in a file: set one of them")
	}
	if len(s.authAudiences) > 0 && len(s.authIssuers) == 0 {
		return errors.New("auth-audience is what tokens of auth-issuer are for, which is not set; an issuer in the section auth has audiences of its own")
	}
	c := s.authConfig()
	if c == nil {
		if len(s.authScopes) > 0 || len(s.auth.Scopes) > 0 || len(s.auth.Implies) > 0 || len(s.auth.Claims) > 0 {
			return errors.New("scopes, implies and claims have no effect where no token counts: set auth-issuer, or api-keys")
		}
		return nil
	}
	for _, i := range c.Issuers {
		if u, err := url.Parse(i.URL); s.publicURL == "" && err == nil && (c.PublicURL == "" || !isLoopback(u.Hostname())) {
			return fmt.Errorf("public-url is needed beside the issuer %s: tokens are made for the URL under which clients reach this server, such as https://mcp.example.com, and what a request says of its host is not believed", i.URL)
		}
	}
	a, err := auth.New(*c)
	if err != nil {
		return fmt.Errorf("the settings of tokens cannot be used: %s", oneLine(err))
	}
	a.Close()
	return nil
}
