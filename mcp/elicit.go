package mcp

import (
	"encoding/json"
	"fmt"
)

// The modes of an elicitation; a form may leave its mode out.
const (
	ElicitModeForm = "form"
	ElicitModeURL  = "url"
)

// ElicitForm asks the user to fill in a form. RequestedSchema is the raw schema:
// build it with [FormSchema.Raw], read it with [ParseFormSchema]. A form must not
// ask for secrets.
type ElicitForm struct {
	Mode            string          `json:"mode,omitempty"`
	Message         string          `json:"message"`
	RequestedSchema json.RawMessage `json:"requestedSchema"`
	Task            *TaskMetadata   `json:"task,omitempty"`
	Meta            Meta            `json:"_meta,omitempty"`
}

// ElicitURL asks the user to open a URL (since 2025-11-25). The id is unique within the
// server and opaque to the client. 2025-11-25 requires it; later revisions have none.
type ElicitURL struct {
	Mode          string        `json:"mode"`
	Message       string        `json:"message"`
	ElicitationID string        `json:"elicitationId,omitempty"`
	URL           string        `json:"url"`
	Task          *TaskMetadata `json:"task,omitempty"`
	Meta          Meta          `json:"_meta,omitempty"`
}

// MarshalJSON always writes the mode.
func (e ElicitURL) MarshalJSON() ([]byte, error) {
	type plain ElicitURL
	e.Mode = ElicitModeURL
	return encode(plain(e))
}

// ElicitParams are the params of elicitation/create. Mode says which of the other members
// count: those of an [ElicitForm] or of an [ElicitURL].
type ElicitParams struct {
	Mode            string          `json:"mode,omitempty"` // [ElicitModeForm], which empty means, or [ElicitModeURL]
	Message         string          `json:"message"`
	RequestedSchema json.RawMessage `json:"requestedSchema,omitempty"` // of a form
	URL             string          `json:"url,omitempty"`
	ElicitationID   string          `json:"elicitationId,omitempty"` // of a URL
	Task            *TaskMetadata   `json:"task,omitempty"`
	Meta            Meta            `json:"_meta,omitempty"`
}

// MarshalJSON writes the members of the mode. It fails for any other mode, and for members
// of the other one.
func (p ElicitParams) MarshalJSON() ([]byte, error) {
	switch {
	case p.Mode == ElicitModeURL && p.RequestedSchema == nil:
		return encode(ElicitURL{Mode: p.Mode, Message: p.Message, ElicitationID: p.ElicitationID, URL: p.URL, Task: p.Task, Meta: p.Meta})
	case (p.Mode == "" || p.Mode == ElicitModeForm) && p.URL == "" && p.ElicitationID == "":
		return encode(ElicitForm{Mode: p.Mode, Message: p.Message, RequestedSchema: p.RequestedSchema, Task: p.Task, Meta: p.Meta})
	}
	return nil, fmt.Errorf("mcp: encode elicitation: %w: a form has a schema, a URL has none, and the mode says which it is", ErrMalformed)
}

// UnmarshalJSON decodes by the mode; none means a form. The members of the other mode are left out.
func (p *ElicitParams) UnmarshalJSON(data []byte) error {
	if !json.Valid(data) {
		return fmt.Errorf("mcp: decode elicitation: %w: not JSON", ErrMalformed)
	}
	mode := ElicitModeForm
	if raw, ok := member(data, "mode"); ok {
		if err := json.Unmarshal(raw, &mode); err != nil {
			return fmt.Errorf("mcp: decode elicitation mode: %w: %w", ErrMalformed, err)
		}
	}
	var out ElicitParams
	var err error
	switch mode {
	case ElicitModeForm:
		var f ElicitForm
		err = decodeStruct(data, &f, nil)
		out = ElicitParams{Mode: f.Mode, Message: f.Message, RequestedSchema: f.RequestedSchema, Task: f.Task, Meta: f.Meta}
	case ElicitModeURL:
		var u ElicitURL
		err = decodeStruct(data, &u, nil)
		out = ElicitParams{Mode: u.Mode, Message: u.Message, URL: u.URL, ElicitationID: u.ElicitationID, Task: u.Task, Meta: u.Meta}
	default:
		err = fmt.Errorf("%w: unknown mode", ErrMalformed)
	}
	if err != nil {
		return fmt.Errorf("mcp: decode elicitation: %w", err)
	}
	*p = out
	return nil
}

// ElicitAction is what the user did.
type ElicitAction string

// The actions. Accepting a URL is consent to open it, not its completion.
const (
	ElicitAccept  ElicitAction = "accept"
	ElicitDecline ElicitAction = "decline"
	ElicitCancel  ElicitAction = "cancel"
)

// ElicitResult is the client's answer. Content is the filled-in form as a raw
// object, present only for an accepted form.
type ElicitResult struct {
	Action  ElicitAction    `json:"action"`
	Content json.RawMessage `json:"content,omitempty"`
	Meta    Meta            `json:"_meta,omitempty"`
}

// URLElicitationRequired is the data of an error with [CodeURLElicitationRequired].
type URLElicitationRequired struct {
	Elicitations []ElicitURL `json:"elicitations"`
}

// ElicitURLsFirst returns the error that refuses a request until the user has
// opened the URLs (since 2025-11-25).
func ElicitURLsFirst(elicitations ...ElicitURL) *Error {
	return NewError(CodeURLElicitationRequired, "").WithData(URLElicitationRequired{list(elicitations)})
}
