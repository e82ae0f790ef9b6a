package everything

import (
	"context"
	"encoding/base64"

	"github.com/troupe-run/troupe"
	"github.com/troupe-run/troupe/mcp"
)

// A picture of one red pixel and a sound of no length.
var (
	redPixel = decoded(redPixelText)
	silence  = decoded("UklGRiYAAABXQVZFZm10IBAAAAABAAEAQB8AAAB9AAACABAAZGF0YQIAAAA=")
)

const redPixelText = "iVBORw0KGgoAAAANSUhEUgAAAAEAAAABCAYAAAAfFcSJAAAADUlEQVR42mP8z8DwHwAFBQIAX8jx0gAAAABJRU5ErkJggg=="

const simpleText = "test_simple_text"

const (
	typePNG  = "image/png"
	typeWAV  = "audio/wav"
	typeText = "text/plain"
	typeJSON = "application/json"
)

func decoded(text string) []byte {
	data, err := base64.StdEncoding.DecodeString(text)
	if err != nil {
		panic(err) // a constant of this file
	}
	return data
}

// addLink adds a tool whose result links to a resource.
func addLink(s *troupe.Server) {
	troupe.AddTool(s, troupe.Tool{Name: "link", Description: "Returns a link to a resource.", Rerun: troupe.Safe},
		func(context.Context, *troupe.Call, struct{}) (mcp.Contents, error) {
			return mcp.Contents{mcp.Link(mcp.Resource{URI: staticText, Name: "static-text", Title: "Static text", Description: "A text that never changes.", MIMEType: typeText})}, nil
		})
}

// addContent adds a tool for each kind of content.
func addContent(s *troupe.Server) {
	add := func(name, description string, content ...mcp.Content) {
		troupe.AddTool(s, troupe.Tool{Name: name, Description: description, Rerun: troupe.Safe},
			func(_ context.Context, call *troupe.Call, _ struct{}) (mcp.Contents, error) {
				if name == simpleText {
					if err := requireOfSuite(call, "tools:call", simpleText); err != nil {
						return nil, err
					}
				}
				return content, nil
			})
	}
	add(simpleText, "Returns text.",
		mcp.Text("This is a simple text response for testing."))
	add("test_image_content", "Returns an image.",
		mcp.Image(redPixel, typePNG))
	add("test_audio_content", "Returns a sound.",
		mcp.Audio(silence, typeWAV))
	add("test_embedded_resource", "Returns the contents of a resource.",
		mcp.Embed(mcp.TextResource("test://embedded-resource", typeText, "This is an embedded resource content.")))
	add("test_multiple_content_types", "Returns text, an image and the contents of a resource.",
		mcp.Text("Multiple content types test:"),
		mcp.Image(redPixel, typePNG),
		mcp.Embed(mcp.TextResource("test://mixed-content-resource", typeJSON, `{"test":"data","value":123}`)))
}
