// Command skills serves a skill: a directory of files that tell a model how to use the server. Hosts find it with skills/list,
// have a person approve it by its digests, and read its files as resources, when a model needs them.
//
//	$ go run ./examples/skills
//	$ go run ./examples/try skills/list '{}'
//	{"skills":[{"uri":"skill://shop/refunds/SKILL.md","frontmatter":{"name":"refunds","description":"How this company refunds customers. Use it when somebody asks for their money back."},"resources":[{"uri":"skill://shop/refunds/SKILL.md","digest":"sha256:7d5876b73a5bc96e136d75d717f76fc291948a71267ece0965c78487c74f6a87","size":305},{"uri":"skill://shop/refunds/templates/letter.md","digest":"sha256:695ef684b55e3d7278c63b5cf0be265ae51b10d8df443da691c20a31fb69e328","size":55}]}]}
//	$ go run ./examples/try resources/directory/read '{"uri":"skill://shop/refunds"}'
//	{"resources":[{"uri":"skill://shop/refunds/SKILL.md","name":"refunds","description":"How this company refunds customers. Use it when somebody asks for their money back.","mimeType":"text/markdown","size":305},{"uri":"skill://shop/refunds/templates","name":"templates","mimeType":"inode/directory"}]}
//	$ go run ./examples/try resources/read '{"uri":"skill://shop/refunds/templates/letter.md"}'
//	{"contents":[{"uri":"skill://shop/refunds/templates/letter.md","mimeType":"text/markdown","text":"Dear {name},\n\nwe have sent {amount} euros back to you.\n"}]}
//	$ go run ./examples/try skills/get '{"uri":"skill://shop/returns/SKILL.md"}'
//	{"code":-32602,"message":"no skill is served at skill://shop/returns/SKILL.md"}
package main

import (
	"context"
	"embed"
	"log"
	"os"

	"github.com/troupe-run/troupe"
	"github.com/troupe-run/troupe/mcp"
)

//go:embed skills
var files embed.FS

func main() {
	srv := troupe.NewServer(mcp.Implementation{Name: "skills", Version: "1.0.0"}, nil)
	troupe.AddSkill(srv, troupe.Skill{Files: files, Dir: "skills/refunds", Path: "shop/refunds"})

	rt, err := troupe.New(troupe.Options{Listen: os.Getenv("LISTEN")}) // if empty, 127.0.0.1:8080
	if err != nil {
		log.Fatal(err)
	}
	rt.Mount("/mcp", srv)
	ln, err := rt.Listen()
	if err != nil {
		log.Fatal(err)
	}
	log.Printf("serving http://%s/mcp", ln.Addr())
	log.Fatal(rt.ServeOn(context.Background(), ln))
}
