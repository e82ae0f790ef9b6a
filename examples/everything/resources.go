package everything

import (
	"context"
	"encoding/json"

	"github.com/troupe-run/troupe"
	"github.com/troupe-run/troupe/mcp"
)

// staticText is the URI of a resource to which a tool links.
const staticText = "test://static-text"

func addResources(s *troupe.Server) {
	add := func(r mcp.Resource, contents mcp.ResourceContents) {
		troupe.AddResource(s, r, func(_ context.Context, call *troupe.Call, uri string, _ map[string]string) ([]mcp.ResourceContents, error) {
			if uri == staticText {
				if err := requireOfSuite(call, "resources:read", "static"); err != nil {
					return nil, err
				}
			}
			return []mcp.ResourceContents{contents}, nil
		})
	}
	const binary, watched = "test://static-binary", "test://watched-resource"
	add(mcp.Resource{URI: staticText, Name: "static-text", Title: "Static text", Description: "A text that never changes.", MIMEType: typeText},
		mcp.TextResource(staticText, typeText, "This is the content of the static text resource."))
	add(mcp.Resource{URI: binary, Name: "static-binary", Title: "Static image", Description: "An image that never changes.", MIMEType: typePNG},
		mcp.BlobResource(binary, typePNG, redPixel))
	add(mcp.Resource{URI: watched, Name: "watched-resource", Title: "Watched resource", Description: "A resource to subscribe to.", MIMEType: typeText},
		mcp.TextResource(watched, typeText, "Watched resource content."))

	troupe.AddResourceTemplate(s, mcp.ResourceTemplate{
		URITemplate: "test://template/{id}/data", Name: "template-data", Title: "Data by id",
		Description: "A resource for each id.", MIMEType: typeJSON,
	}, func(_ context.Context, call *troupe.Call, uri string, vars map[string]string) ([]mcp.ResourceContents, error) {
		if err := requireOfSuite(call, "resources:read", "template:"+vars["id"]); err != nil {
			return nil, err
		}
		data, err := json.Marshal(struct {
			ID           string `json:"id"`
			TemplateTest bool   `json:"templateTest"`
			Data         string `json:"data"`
		}{vars["id"], true, "Data for ID: " + vars["id"]})
		if err != nil {
			return nil, err
		}
		return []mcp.ResourceContents{mcp.TextResource(uri, typeJSON, string(data))}, nil
	})
}
