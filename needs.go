package troupe

import (
	"cmp"
	"encoding/json"
	"errors"
	"fmt"
	"strings"

	"github.com/troupe-run/troupe/codec"
	"github.com/troupe-run/troupe/mcp"
)

// askable lists the capabilities that questions need, in the order in which messages name
// them, each with the feature that a revision must have.
var askable = []struct {
	cap     mcp.Capability
	feature mcp.Feature
}{
	{mcp.CapClientElicitationForm, mcp.FeatureElicitation},
	{mcp.CapClientElicitationURL, mcp.FeatureURLElicitation},
	{mcp.CapClientSampling, mcp.FeatureSampling},
	{mcp.CapClientSamplingTools, mcp.FeatureSamplingTools},
	{mcp.CapClientRoots, mcp.FeatureRoots},
}

// checkNeeds refuses a capability that no question needs.
func checkNeeds(needs mcp.Capability) error {
	rest := needs
	for _, x := range askable {
		rest &^= x.cap
	}
	for one := range rest.Each() {
		return fmt.Errorf("field Needs has %s, which no question to a client needs", cmp.Or(one.String(), fmt.Sprintf("%#x", uint32(one))))
	}
	return nil
}

// lackingOf returns the capabilities of needs that the client has not declared.
func lackingOf(needs mcp.Capability, c *mcp.ClientCapabilities) mcp.Capability {
	var lacking mcp.Capability
	for one := range needs.Each() {
		if !c.Has(one) {
			lacking |= one
		}
	}
	return lacking
}

// needsText names the capabilities of needs, and those that no client of the revision can
// declare.
func needsText(needs mcp.Capability, r mcp.Revision) string {
	var all, never []string
	for _, x := range askable {
		if needs&x.cap == 0 {
			continue
		}
		all = append(all, x.cap.String())
		if !r.Has(x.feature) {
			never = append(never, x.cap.String())
		}
	}
	if needs&mcp.CapClientTasksExtension != 0 {
		all = append(all, mcp.CapClientTasksExtension.String())
	}
	text := strings.Join(all, ", ")
	if never == nil {
		return text
	}
	return fmt.Sprintf("%s (revision %s has no %s)", text, r, strings.Join(never, ", "))
}

// refuseLacking refuses a client that lacks a capability which a handler needs.
func refuseLacking(needs mcp.Capability, p *Peer) *mcp.Error {
	if needs == 0 {
		return nil
	}
	caps := p.Capabilities()
	lacking := lackingOf(needs, &caps)
	if lacking == 0 {
		return nil
	}
	return lackingError(lacking, p.p.Revision())
}

// lackingError is the error for a client of the revision that has not declared needs.
func lackingError(needs mcp.Capability, r mcp.Revision) *mcp.Error {
	code := mcp.CodeInvalidRequest
	if r.Stateless() {
		code = mcp.CodeMissingCapability
	}
	return mcp.Errorf(code, "the client must declare: %s", needsText(needs, r)).
		WithData(struct {
			Lacking json.RawMessage `json:"requiredCapabilities"`
		}{needsObject(needs)})
}

// undeclaredError is an ErrUndeclared that says which capabilities the client lacks.
type undeclaredError struct {
	key      string
	lacking  mcp.Capability
	revision mcp.Revision
}

func (e *undeclaredError) Error() string {
	return fmt.Sprintf("troupe: question %q: %s: %s", e.key, ErrUndeclared, needsText(e.lacking, e.revision))
}
func (e *undeclaredError) Unwrap() error { return ErrUndeclared }

// undeclared returns the error for a stateless client whose handler failed because it could
// not ask: the client may declare more and try again. It returns nil for any other error
// and client.
func undeclared(err error) *mcp.Error {
	if e, ok := errors.AsType[*undeclaredError](err); ok && e.revision.Stateless() {
		return lackingError(e.lacking, e.revision)
	}
	return nil
}

// needsObject returns the client capabilities that would satisfy needs.
func needsObject(needs mcp.Capability) json.RawMessage {
	var c mcp.ClientCapabilities
	if needs&(mcp.CapClientElicitationForm|mcp.CapClientElicitationURL) != 0 {
		c.Elicitation = &mcp.ElicitationCapability{}
		if needs&mcp.CapClientElicitationForm != 0 {
			c.Elicitation.Form = mcp.Declared()
		}
		if needs&mcp.CapClientElicitationURL != 0 {
			c.Elicitation.URL = mcp.Declared()
		}
	}
	if needs&(mcp.CapClientSampling|mcp.CapClientSamplingTools) != 0 {
		c.Sampling = &mcp.SamplingCapability{}
		if needs&mcp.CapClientSamplingTools != 0 {
			c.Sampling.Tools = mcp.Declared()
		}
	}
	if needs&mcp.CapClientRoots != 0 {
		c.Roots = &mcp.ListChanged{}
	}
	if needs&mcp.CapClientTasksExtension != 0 {
		c.Extensions = map[string]mcp.Object{mcp.ExtensionTasks: nil}
	}
	data, _ := codec.Marshal(c) // a value of our own making
	return data
}
