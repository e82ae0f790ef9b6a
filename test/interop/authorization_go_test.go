package interop

import (
	"context"
	"errors"
	"io"
	"net/http"
	"net/url"
	"os/exec"
	"path/filepath"
	"strings"
	"sync/atomic"
	"testing"

	"github.com/modelcontextprotocol/go-sdk/auth"
	"github.com/modelcontextprotocol/go-sdk/auth/extauth"
	"github.com/modelcontextprotocol/go-sdk/mcp"
	"github.com/modelcontextprotocol/go-sdk/oauthex"
)

// counting counts the requests for fresh tokens.
type counting struct{ refreshes atomic.Int64 }

func (c *counting) RoundTrip(r *http.Request) (*http.Response, error) {
	if r.Body != nil && strings.HasSuffix(r.URL.Path, "/token") {
		body, err := io.ReadAll(r.Body)
		if err != nil {
			return nil, err
		}
		r = r.Clone(r.Context())
		r.Body = io.NopCloser(strings.NewReader(string(body)))
		if strings.Contains(string(body), "grant_type=refresh_token") {
			c.refreshes.Add(1)
		}
	}
	return http.DefaultTransport.RoundTrip(r)
}

// signIn is the browser of npm/auth/browser.mjs.
func signIn(ctx context.Context, args *auth.AuthorizationArgs) (*auth.AuthorizationResult, error) {
	out, err := exec.CommandContext(ctx, "node", filepath.Join("npm", "auth", "browser.mjs"), args.URL).Output()
	if err != nil {
		var exit *exec.ExitError
		if errors.As(err, &exit) {
			err = errors.New(string(exit.Stderr))
		}
		return nil, err
	}
	back, err := url.Parse(string(out))
	if err != nil {
		return nil, err
	}
	q := back.Query()
	if q.Get("error") != "" {
		return nil, errors.New(back.RawQuery)
	}
	return &auth.AuthorizationResult{Code: q.Get("code"), State: q.Get("state"), Iss: q.Get("iss")}, nil
}

// handler returns the SDK's handler for a client that is known in its way. A client that is registered gets tokens of 5 s, which the SDK
// refreshes before each request, as they end within 10 s.
func (c *authClient) handler(client *http.Client) (auth.OAuthHandler, error) {
	if c.Register == "machine" {
		return extauth.NewClientCredentialsHandler(&extauth.ClientCredentialsHandlerConfig{
			Credentials: &oauthex.ClientCredentials{ClientID: c.ID, ClientSecretAuth: &oauthex.ClientSecretAuth{ClientSecret: c.Secret}}, HTTPClient: client,
		})
	}
	config := &auth.AuthorizationCodeHandlerConfig{RedirectURL: redirectURI, AuthorizationCodeFetcher: signIn, Client: client}
	switch c.Register {
	case "pre":
		config.PreregisteredClient = &oauthex.ClientCredentials{ClientID: c.ID}
	case "cimd":
		config.ClientIDMetadataDocumentConfig = &auth.ClientIDMetadataDocumentConfig{URL: c.ID}
	case "dcr":
		config.DynamicClientRegistrationConfig = &auth.DynamicClientRegistrationConfig{Metadata: &oauthex.ClientRegistrationMetadata{
			ClientName: "short", RedirectURIs: []string{redirectURI}, TokenEndpointAuthMethod: "none",
			GrantTypes: []string{"authorization_code", "refresh_token"}, ResponseTypes: []string{"code"},
		}}
	}
	return auth.NewAuthorizationCodeHandler(config)
}

// driveGo has a client of the Go SDK go through its steps in each era, and reports them as tests.
func (s *site) driveGo(t *testing.T, c authClient) {
	t.Helper()
	for _, version := range []string{revision, stateless} {
		t.Run(version, func(t *testing.T) {
			ctx := within(t)
			count := new(counting)
			handler, err := c.handler(&http.Client{Transport: count})
			if err != nil {
				t.Fatal(err)
			}
			session, err := mcp.NewClient(&mcp.Implementation{Name: "interop", Version: "1.0.0"}, nil).
				Connect(ctx, &mcp.StreamableClientTransport{Endpoint: s.endpoint, OAuthHandler: handler}, &mcp.ClientSessionOptions{ProtocolVersion: version})
			if err != nil {
				t.Fatal(err)
			}
			defer func() { _ = session.Close() }()
			id := session.ID()
			source, err := handler.TokenSource(ctx)
			if err != nil {
				t.Fatal(err)
			}
			token, err := source.Token()
			if err != nil {
				t.Fatal(err)
			}
			s.checkFormat(t, token.AccessToken)
			for _, step := range c.Steps {
				t.Run(c.Name+"/"+step, func(t *testing.T) {
					before := count.refreshes.Load()
					r, err := session.CallTool(ctx, &mcp.CallToolParams{Name: c.tool(step)})
					if err != nil {
						t.Fatal(err)
					}
					text, ok := r.Content[0].(*mcp.TextContent)
					if !ok || r.IsError {
						t.Fatalf("it is answered %+v", r)
					}
					c.checkStep(t, step, text.Text)
					if session.ID() != id {
						t.Error("the session is another one")
					}
					if step == "refresh" && count.refreshes.Load() == before {
						t.Error("no token was refreshed")
					}
				})
			}
		})
	}
}
