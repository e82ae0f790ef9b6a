package mcp_test

import (
	"encoding/json"
	"errors"
	"testing"

	"github.com/troupe-run/troupe/mcp"
)

// TestElicitParams writes and reads the params of both modes, and those that belong to neither.
func TestElicitParams(t *testing.T) {
	t.Parallel()
	for want, p := range map[string]mcp.ElicitParams{
		`{"message":"Who?","requestedSchema":{}}`:                                            {Message: "Who?", RequestedSchema: json.RawMessage(`{}`)},
		`{"mode":"form","message":"Who?","requestedSchema":{}}`:                              {Mode: mcp.ElicitModeForm, Message: "Who?", RequestedSchema: json.RawMessage(`{}`)},
		`{"mode":"url","message":"Open this","elicitationId":"1","url":"https://x.example"}`: {Mode: mcp.ElicitModeURL, Message: "Open this", ElicitationID: "1", URL: "https://x.example"},
	} {
		data, err := json.Marshal(p)
		if err != nil || string(data) != want {
			t.Errorf("written as %s, %v, want %s", data, err, want)
		}
		var back mcp.ElicitParams
		if err := json.Unmarshal(data, &back); err != nil || back.Mode != p.Mode || back.Message != p.Message || back.URL != p.URL || back.ElicitationID != p.ElicitationID || string(back.RequestedSchema) != string(p.RequestedSchema) {
			t.Errorf("%s is read as %+v, %v", data, back, err)
		}
	}
	for _, p := range []mcp.ElicitParams{
		{Message: "x", URL: "https://x.example"}, {Mode: "url", RequestedSchema: json.RawMessage(`{}`)}, {Mode: "form", ElicitationID: "1"}, {Mode: "other"},
	} {
		if data, err := json.Marshal(p); !errors.Is(err, mcp.ErrMalformed) {
			t.Errorf("%+v is written as %s, %v", p, data, err)
		}
	}
	var p mcp.ElicitParams
	if err := json.Unmarshal([]byte(`{"mode":"other","message":"x"}`), &p); !errors.Is(err, mcp.ErrMalformed) {
		t.Errorf("another mode is read as %+v, %v", p, err)
	}
}
