package hosting

import (
	"github.com/troupe-run/troupe/codec"
	"github.com/troupe-run/troupe/host"
	"github.com/troupe-run/troupe/internal/backend"
	"github.com/troupe-run/troupe/internal/protocol"
	"github.com/troupe-run/troupe/mcp"
)

// A Caller is whose call it is, or for whom something is listed.
type Caller struct {
	backend.Caller
	Revision mcp.Revision
	Declared mcp.ClientCapabilities // those that count in the revision
}

// mayBeAsked reports whether the client of the caller may be asked for anything, by a backend with these options.
func (c *Caller) mayBeAsked(o *host.Options) bool {
	return c.Declared.Has(mcp.CapClientElicitation) || c.Declared.Has(mcp.CapClientSampling) || o.Roots.Forward && c.Declared.Has(mcp.CapClientRoots)
}

// checkQuestion returns why the client of the caller cannot be asked: it does not know the method, or has not declared what the params need.
func (c *Caller) checkQuestion(method string, params []byte) *mcp.Error {
	needs, more := mcp.CapNone, mcp.CapNone
	switch method {
	case mcp.MethodRootsList:
		needs = mcp.CapClientRoots
	case mcp.MethodSamplingCreateMessage:
		needs = mcp.CapClientSampling
		if codec.Optional(params, "tools") != nil || codec.Optional(params, "toolChoice") != nil {
			more = mcp.CapClientSamplingTools
		}
	case mcp.MethodElicitationCreate:
		needs, more = mcp.CapClientElicitation, mcp.CapClientElicitationForm
		if isURL(params) {
			more = mcp.CapClientElicitationURL
		}
	}
	switch {
	case needs == mcp.CapNone, !c.Declared.Has(needs):
		return mcp.Errorf(mcp.CodeMethodNotFound, "the client does not support %s", protocol.Shown(method))
	case !c.Declared.Has(more):
		return mcp.Errorf(mcp.CodeInvalidParams, "the client has not declared %s", more)
	}
	return nil
}

// Told is what backends are told of what a client declares, as raw JSON: what they may ask for, and nothing else that the client has written there. It decides who
// can share an instance, and clients must not make kinds of them without end.
func Told(c *mcp.ClientCapabilities) []byte {
	var told mcp.ClientCapabilities
	if e := c.Elicitation; e != nil {
		told.Elicitation = &mcp.ElicitationCapability{Form: emptied(e.Form), URL: emptied(e.URL)}
	}
	if s := c.Sampling; s != nil {
		told.Sampling = &mcp.SamplingCapability{Context: emptied(s.Context), Tools: emptied(s.Tools)}
	}
	told.Roots = c.Roots
	return mcp.Raw(told)
}

// emptied is an empty object for any.
func emptied(o *mcp.Object) *mcp.Object {
	if o == nil {
		return nil
	}
	return mcp.Declared()
}
