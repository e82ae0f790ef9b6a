package troupe_test

import (
	"context"
	"testing/fstest"

	"github.com/troupe-run/troupe"
	"github.com/troupe-run/troupe/mcp"
)

func ExampleAddSkill() {
	files := fstest.MapFS{ // in a program, files of a //go:embed
		"refunds/SKILL.md":  {Data: []byte("---\nname: refunds\ndescription: How to refund customers.\n---\nSee letter.md.\n")},
		"refunds/letter.md": {Data: []byte("Dear {name},\n")},
	}
	srv := troupe.NewServer(mcp.Implementation{Name: "shop", Version: "1.0"}, nil)
	troupe.AddSkill(srv, troupe.Skill{Files: files, Dir: "refunds", Path: "shop/refunds"})

	c := visit(srv, `{}`)
	defer c.close()
	c.request("resources/directory/read", `{"uri":"skill://shop/refunds"}`)
	c.request("resources/read", `{"uri":"skill://shop/refunds/letter.md"}`)
	// Output:
	// {"resources":[{"uri":"skill://shop/refunds/SKILL.md","name":"refunds","description":"How to refund customers.","mimeType":"text/markdown","size":75},{"uri":"skill://shop/refunds/letter.md","name":"letter.md","mimeType":"text/markdown","size":13}]}
	// {"contents":[{"uri":"skill://shop/refunds/letter.md","mimeType":"text/markdown","text":"Dear {name},\n"}]}
}

func ExampleAddPage() {
	srv := troupe.NewServer(mcp.Implementation{Name: "drinks", Version: "1.0"}, nil)
	troupe.AddPage(srv, troupe.Page{
		URI: "ui://drinks/votes", Name: "votes", HTML: "<!DOCTYPE html><title>Votes</title>",
		CSP: mcp.UICSP{ResourceDomains: []string{"https://cdn.example.com"}},
	})
	troupe.AddTool(srv, troupe.Tool{Name: "drinks", UI: troupe.UI{Page: "ui://drinks/votes"}},
		func(context.Context, *troupe.Call, struct{}) (string, error) { return "3 want tea, 1 coffee", nil })

	c := visit(srv, `{}`)
	defer c.close()
	c.request("resources/read", `{"uri":"ui://drinks/votes"}`)
	// Output:
	// {"contents":[{"uri":"ui://drinks/votes","mimeType":"text/html;profile=mcp-app","text":"<!DOCTYPE html><title>Votes</title>","_meta":{"ui":{"csp":{"resourceDomains":["https://cdn.example.com"]}}}}]}
}
