package everything

import (
	"context"
	"strings"
	"unicode/utf8"

	"github.com/troupe-run/troupe"
	"github.com/troupe-run/troupe/mcp"
)

type measureInput struct {
	Text string `json:"text" jsonschema:"what to measure"`
}

type measures struct {
	Bytes      int `json:"bytes" jsonschema:"its length in UTF-8"`
	Characters int `json:"characters" jsonschema:"its code points"`
	Words      int `json:"words" jsonschema:"its parts between white space"`
}

// addMeasure adds a tool with structured results and every descriptive member of a
// tool: a title, annotations and an icon.
func addMeasure(s *troupe.Server) {
	troupe.AddTool(s, troupe.Tool{
		Name:        "measure",
		Title:       "Measure a text",
		Description: "Counts the bytes, characters and words of a text.",
		Annotations: &mcp.ToolAnnotations{ReadOnlyHint: true, OpenWorldHint: new(false)},
		UI:          troupe.UI{Page: measurePage},
		Icons:       []mcp.Icon{{Src: "data:" + typePNG + ";base64," + redPixelText, MIMEType: typePNG, Sizes: []string{"1x1"}}},
	}, func(_ context.Context, _ *troupe.Call, in measureInput) (measures, error) {
		return measures{len(in.Text), utf8.RuneCountInString(in.Text), len(strings.Fields(in.Text))}, nil
	})
}
