package client

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"net/http"
	"slices"
	"strings"

	"github.com/troupe-run/troupe/mcp"
)

// Connect agrees with a server on a revision, and begins a session where the revision has sessions. Without a revision in the options it
// tries the newest, and falls back to initialize where the server has never heard of that (basic/versioning, "Backward Compatibility"). The
// error is an *[mcp.Error] or a *[StatusError] if the server answered with one.
func Connect(ctx context.Context, o Options) (*Client, error) {
	c := &Client{o: o, http: &http.Client{
		Transport:     o.Transport,
		CheckRedirect: func(*http.Request, []*http.Request) error { return http.ErrUseLastResponse },
	}}
	if o.Revision.Valid() && !o.Revision.Stateless() {
		return c, c.initializeSession(ctx, o.Revision)
	}
	legacy, err := c.discoverServer(ctx)
	switch {
	case err == nil:
		return c, nil
	case o.Revision.Stateless() || !legacy:
		return nil, err
	}
	return c, c.initializeSession(ctx, mcp.LatestLegacy)
}

// discoverServer asks what the server speaks. Where it fails, legacy says that the server may be one of the time before.
func (c *Client) discoverServer(ctx context.Context) (legacy bool, err error) {
	c.revision = mcp.Latest
	result, err := c.sendRepeated(ctx, request{method: mcp.MethodServerDiscover, reads: true})
	if err != nil {
		c.revision = 0
		return isLegacy(err), err
	}
	var d struct {
		Supported []string `json:"supportedVersions"`
		Meta      struct {
			Server mcp.Implementation `json:"io.modelcontextprotocol/serverInfo"`
		} `json:"_meta"`
	}
	if err := json.Unmarshal(result, &d); err != nil {
		return false, fmt.Errorf("the result of %s: %w", mcp.MethodServerDiscover, err)
	}
	c.noteServer(d.Meta.Server)
	if slices.Contains(d.Supported, mcp.Latest.String()) {
		return false, nil
	}
	c.revision = 0
	return true, fmt.Errorf("the server speaks %s, and not %v", strings.Join(d.Supported, ", "), mcp.Latest)
}

// isLegacy reports whether a server that answers a request of the newest revision with an error may be one of the time before: it is one
// unless the error is of that revision, or is about something else.
func isLegacy(err error) bool {
	if e, ok := errors.AsType[*mcp.Error](err); ok {
		switch e.Code {
		case mcp.CodeHeaderMismatch, mcp.CodeMissingCapability:
			return false
		}
		return true // CodeUnsupportedVersion too: what the server speaks may have sessions
	}
	if e, ok := errors.AsType[*StatusError](err); ok {
		switch e.Status {
		case http.StatusBadRequest, http.StatusNotFound, http.StatusMethodNotAllowed, http.StatusNotAcceptable, http.StatusUnsupportedMediaType, http.StatusUnprocessableEntity:
			return true
		}
	}
	return false
}

// initializeSession begins a session.
func (c *Client) initializeSession(ctx context.Context, revision mcp.Revision) error {
	params := map[string]json.RawMessage{"protocolVersion": encodeRaw(revision.String()), "capabilities": encodeRaw(c.o.clientCapabilities(c.revision)), "clientInfo": encodeRaw(c.o.clientInfo())}
	result, err := c.sendRepeated(ctx, request{method: mcp.MethodInitialize, params: params, reads: true})
	if err != nil {
		return err
	}
	var settled struct {
		Version string             `json:"protocolVersion"`
		Server  mcp.Implementation `json:"serverInfo"`
	}
	if err := json.Unmarshal(result, &settled); err != nil {
		return fmt.Errorf("the result of %s: %w", mcp.MethodInitialize, err)
	}
	c.noteServer(settled.Server)
	spoken, known := mcp.ParseRevision(settled.Version)
	if !known || c.o.Revision != 0 && spoken != c.o.Revision || spoken.Stateless() {
		c.Close()
		return fmt.Errorf("the server speaks %.40q, and not %v", settled.Version, revision)
	}
	c.revision = spoken
	body, err := encodeMessage("", mcp.NotifyInitialized, nil)
	if err != nil {
		return err
	}
	return c.sendMessage(ctx, body, mcp.NotifyInitialized)
}

func (c *Client) noteServer(server mcp.Implementation) {
	c.server = strings.TrimSpace(server.Name + " " + server.Version)
}
