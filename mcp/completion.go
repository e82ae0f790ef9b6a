package mcp

// MaxCompletionValues is the largest number of values in a [Completion].
const MaxCompletionValues = 100

// The types of a [Reference].
const (
	RefPrompt   = "ref/prompt"
	RefResource = "ref/resource"
)

// CompleteParams are the params of completion/complete.
type CompleteParams struct {
	Ref      Reference        `json:"ref"`
	Argument CompleteArgument `json:"argument"`
	Context  *CompleteContext `json:"context,omitempty"`
	Meta     Meta             `json:"_meta,omitempty"`
}

// Reference names what to complete: for [RefPrompt] a prompt by Name, for [RefResource] a
// resource or a template by URI.
type Reference struct {
	Type  string `json:"type"`
	Name  string `json:"name,omitempty"`
	Title string `json:"title,omitempty"`
	URI   string `json:"uri,omitempty"`
}

// MarshalJSON writes the members that belong to the type, also when empty.
func (r Reference) MarshalJSON() ([]byte, error) {
	switch r.Type {
	case RefPrompt:
		return encode(struct {
			Type  string `json:"type"`
			Name  string `json:"name"`
			Title string `json:"title,omitempty"`
		}{r.Type, r.Name, r.Title})
	case RefResource:
		return encode(struct {
			Type string `json:"type"`
			URI  string `json:"uri"`
		}{r.Type, r.URI})
	}
	type plain Reference
	return encode(plain(r))
}

// CompleteArgument is the argument to complete and what was typed so far.
type CompleteArgument struct {
	Name  string `json:"name"`
	Value string `json:"value"`
}

// CompleteContext holds the arguments that already have values (since 2025-06-18).
type CompleteContext struct {
	Arguments map[string]string `json:"arguments,omitempty"`
}

// Completion holds at most [MaxCompletionValues] values, best first. Total may be
// larger than their number.
type Completion struct {
	Values  []string `json:"values"`
	Total   *int64   `json:"total,omitempty"`
	HasMore *bool    `json:"hasMore,omitempty"`
}

// NewCompletion returns a completion of all values, best first. It keeps at most
// [MaxCompletionValues] of them, and says how many there are.
func NewCompletion(values []string) Completion {
	c := Completion{Values: values, Total: new(int64(len(values))), HasMore: new(false)}
	if len(values) > MaxCompletionValues {
		c.Values, c.HasMore = values[:MaxCompletionValues], new(true)
	}
	return c
}
