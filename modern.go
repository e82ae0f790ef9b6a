package troupe

import (
	"context"
	"encoding/json"
	"slices"

	"github.com/troupe-run/troupe/actors"
	"github.com/troupe-run/troupe/codec"
	"github.com/troupe-run/troupe/mcp"
)

// MayAsk reports whether a call may ask its client for input: tools say so by their
// Needs; prompts and resources always may.
func (s *service) MayAsk(method, name []byte) bool {
	switch string(method) {
	case mcp.MethodToolsCall:
		raw, ok := plain(name)
		if !ok {
			raw = []byte(text(name))
		}
		t, ok := s.srv.tools.find(raw)
		return ok && t.Needs != 0
	case mcp.MethodPromptsGet, mcp.MethodResourcesRead:
		return true
	}
	return false
}

// Listening decides what a listener gets to hear: all that the server has, but only
// those resources that ServerOptions.Subscribe allows, and no more of them than a
// session may subscribe to.
func (s *service) Listening(ctx context.Context, c *actors.Call) (actors.Listening, *mcp.Error) {
	var in struct {
		Notifications *struct {
			Tools     bool     `json:"toolsListChanged,omitempty"`
			Prompts   bool     `json:"promptsListChanged,omitempty"`
			Resources bool     `json:"resourcesListChanged,omitempty"`
			URIs      []string `json:"resourceSubscriptions,omitempty"`
		} `json:"notifications"`
	}
	if err := codec.UnmarshalValid(orEmpty(c.Message().Params), &in); err != nil {
		return actors.Listening{}, invalidParams(err)
	}
	if in.Notifications == nil {
		return actors.Listening{}, mcp.NewError(mcp.CodeInvalidParams, "subscriptions/listen needs notifications")
	}
	f := in.Notifications
	call := &Call{c: c, svc: s, peer: Peer{c.Peer()}}
	limit := s.svc.Limits.Subscriptions
	seen := make(map[string]bool)
	var uris []string
	for _, uri := range f.URIs {
		switch {
		case seen[uri] || !absolute(uri) || limit >= 0 && len(uris) >= limit:
		case s.srv.opts.Subscribe != nil && s.srv.opts.Subscribe(ctx, call, uri) != nil:
		default:
			seen[uri] = true
			uris = append(uris, uri)
		}
	}
	f.URIs = uris
	accepted, err := json.Marshal(f)
	if err != nil {
		return actors.Listening{}, s.internal(mcp.MethodSubscriptionsListen, err)
	}
	return actors.Listening{Tools: f.Tools, Prompts: f.Prompts, Resources: f.Resources, URIs: uris, Accepted: accepted}, nil
}

// modernRevisions are those that this release speaks whose requests each stand for
// themselves: none yet, because results are not as 2026-07-28 has them.
var modernRevisions []mcp.Revision

func modernNames() []string {
	names := make([]string, len(modernRevisions))
	for i, r := range modernRevisions {
		names[i] = r.String()
	}
	return names
}

// served are all revisions that this release speaks, newest first.
func served() []string {
	all := append(revisionNames(), modernNames()...)
	slices.Reverse(all)
	return all
}

// checkMeta checks the metadata of a request that stands for itself and came without
// headers (2026-07-28, basic/index, _meta).
func checkMeta(m *codec.Message) *mcp.Error {
	version, ok := codec.Str(m.ProtocolVersion)
	if !ok {
		return mcp.NewError(mcp.CodeInvalidParams, "_meta: the protocolVersion must be a string")
	}
	if r, known := mcp.ParseRevision(version); !known || !slices.Contains(modernRevisions, r) {
		return mcp.NewError(mcp.CodeUnsupportedVersion, "").WithData(struct {
			Supported []string `json:"supported"`
			Requested string   `json:"requested"`
		}{served(), shown(version)})
	}
	if !isObject(codec.Field(m.Meta, mcp.MetaClientCapabilities)) {
		return mcp.NewError(mcp.CodeInvalidParams, "_meta: clientCapabilities must be an object")
	}
	if info := codec.Field(m.Meta, mcp.MetaClientInfo); info != nil && !isObject(info) {
		return mcp.NewError(mcp.CodeInvalidParams, "_meta: clientInfo must be an object")
	}
	return nil
}
