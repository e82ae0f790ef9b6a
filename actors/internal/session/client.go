package session

import (
	"bytes"
	"encoding/json"
	"maps"
	"slices"

	"github.com/troupe-run/troupe/mcp"
)

// keptClient is what a session keeps of its client: of the clientInfo the name, the version and the
// title; the capabilities that a revision defines; and further ones as far as there is room.
type keptClient struct {
	info mcp.Implementation
	caps mcp.ClientCapabilities
	room int
}

// KeepClient returns what a session keeps of the clientInfo and the capabilities of p, in most bytes
// together. docs/limits.md says what it leaves out first. It reports false if name and version alone
// do not fit.
func KeepClient(p *mcp.InitializeParams, most int) (info, caps []byte, ok bool) {
	given := &p.Capabilities
	k := keptClient{room: most,
		info: mcp.Implementation{Name: p.ClientInfo.Name, Version: p.ClientInfo.Version},
		caps: mcp.ClientCapabilities{Roots: given.Roots, Sampling: given.Sampling, Elicitation: given.Elicitation, Tasks: given.Tasks},
	}
	whole := k.caps
	k.declareOnly()
	if k.room -= sizeOf(k.info) + sizeOf(k.caps); k.room < 0 {
		return nil, nil, false
	}
	if p.ClientInfo.Title != "" && k.takeRoom(len(`,"title":`)+sizeOf(p.ClientInfo.Title)) {
		k.info.Title = p.ClientInfo.Title
	}
	if k.takeRoom(sizeOf(whole) - sizeOf(k.caps)) {
		k.caps = whole
	}
	k.caps.Experimental = keepMembers(&k, "experimental", given.Experimental)
	k.caps.Extensions = keepMembers(&k, "extensions", given.Extensions)
	k.caps.Extra = keepMembers(&k, "", given.Extra)
	return encode(k.info), encode(k.caps), true
}

// takeRoom takes n bytes of the room if there are as many.
func (k *keptClient) takeRoom(n int) bool {
	if n > k.room {
		return false
	}
	k.room -= n
	return true
}

// declareOnly empties the objects of the capabilities, which no revision defines the members of.
func (k *keptClient) declareOnly() {
	bare := func(o *mcp.Object) *mcp.Object {
		if o == nil {
			return nil
		}
		return mcp.Declared()
	}
	if s := k.caps.Sampling; s != nil {
		k.caps.Sampling = &mcp.SamplingCapability{Context: bare(s.Context), Tools: bare(s.Tools)}
	}
	if e := k.caps.Elicitation; e != nil {
		k.caps.Elicitation = &mcp.ElicitationCapability{Form: bare(e.Form), URL: bare(e.URL)}
	}
	if t := k.caps.Tasks; t != nil {
		tasks := &mcp.ClientTasksCapability{List: bare(t.List), Cancel: bare(t.Cancel)}
		if r := t.Requests; r != nil {
			tasks.Requests = &mcp.ClientTaskRequests{}
			if r.Sampling != nil {
				tasks.Requests.Sampling = &mcp.SamplingTaskRequests{CreateMessage: bare(r.Sampling.CreateMessage)}
			}
			if r.Elicitation != nil {
				tasks.Requests.Elicitation = &mcp.ElicitationTaskRequests{Create: bare(r.Elicitation.Create)}
			}
		}
		k.caps.Tasks = tasks
	}
}

// keepMembers returns the members that there is room for, in the order of their names. member holds them;
// "" if they stand beside it.
func keepMembers[V json.RawMessage | mcp.Object](k *keptClient, member string, given map[string]V) (kept map[string]V) {
	const least = len(`,"":{}`)
	around := 0
	if member != "" {
		around = len(`,"":{}`) + len(member)
	}
	for _, name := range slices.Sorted(maps.Keys(given)) {
		if k.room < around+least {
			break
		}
		if !k.takeRoom(around + sizeOf(name) + len(",:") + sizeOf(json.RawMessage(given[name]))) {
			continue
		}
		if around = 0; kept == nil {
			kept = make(map[string]V)
		}
		kept[name] = given[name]
	}
	return kept
}

// sizeOf is the size of a value as JSON.
func sizeOf(v any) int { return len(encode(v)) }

// encode returns a value that has been decoded as JSON again.
func encode(v any) []byte {
	var b bytes.Buffer
	e := json.NewEncoder(&b)
	e.SetEscapeHTML(false)
	_ = e.Encode(v)
	return bytes.TrimSuffix(b.Bytes(), []byte("\n"))
}
