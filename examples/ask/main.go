// Command ask has tools that ask the user: one to fill in a form, one to open a URL
// for data that must not pass through the client.
//
//	$ go run ./examples/ask
//	$ go run ./examples/try answer '{"action":"accept","content":{"size":"L"}}' tools/call '{"name":"order"}'
//	elicitation/create {"mode":"form","message":"Which size?","requestedSchema":{"type":"object","properties":{"size":{"type":"string","title":"Size","enum":["S","M","L"]}},"required":["size"]}}
//	{"content":[{"type":"text","text":"ordered size L"}]}
//	$ go run ./examples/try answer '{"action":"decline"}' tools/call '{"name":"order"}'
//	elicitation/create {"mode":"form","message":"Which size?","requestedSchema":{"type":"object","properties":{"size":{"type":"string","title":"Size","enum":["S","M","L"]}},"required":["size"]}}
//	{"content":[{"type":"text","text":"nothing ordered"}]}
//	$ go run ./examples/try answer '{"action":"accept"}' tools/call '{"name":"pay"}'
//	elicitation/create {"mode":"url","message":"Please pay here.","elicitationId":"bill-7","url":"https://example.com/pay/7"}
//	notifications/elicitation/complete {"elicitationId":"bill-7"}
//	{"content":[{"type":"text","text":"paid"}]}
//
// The handlers are the same for all revisions. Clients of 2025-06-18 and 2025-11-25 get
// a request from the server. In 2026-07-28 servers send no requests: the client sends its
// own again with the answer. The client try does the right thing in each.
//
//	$ go run ./examples/try revision 2025-06-18 answer '{"action":"accept","content":{"size":"L"}}' tools/call '{"name":"order"}'
//	elicitation/create {"message":"Which size?","requestedSchema":{"type":"object","properties":{"size":{"type":"string","title":"Size","enum":["S","M","L"]}},"required":["size"]}}
//	{"content":[{"type":"text","text":"ordered size L"}]}
//	$ go run ./examples/try revision 2026-07-28 answer '{"action":"accept","content":{"size":"L"}}' tools/call '{"name":"order"}'
//	elicitation/create {"mode":"form","message":"Which size?","requestedSchema":{"type":"object","properties":{"size":{"type":"string","title":"Size","enum":["S","M","L"]}},"required":["size"]}}
//	{"resultType":"complete","_meta":{"io.modelcontextprotocol/serverInfo":{"name":"ask","version":"1.0.0"}},"content":[{"type":"text","text":"ordered size L"}]}
//
// Because of Needs, a client that cannot ask its user is refused before the handler
// runs, and the error says why: 2025-03-26 has no elicitation at all.
//
//	$ go run ./examples/try revision 2025-03-26 tools/call '{"name":"order"}'
//	{"code":-32600,"message":"the client must declare: elicitation.form (revision 2025-03-26 has no elicitation.form)","data":{"requiredCapabilities":{"elicitation":{"form":{}}}}}
//	$ go run ./examples/try revision 2026-07-28 declare '{}' tools/call '{"name":"order"}'
//	400 {"code":-32021,"message":"the client must declare: elicitation.form","data":{"requiredCapabilities":{"elicitation":{"form":{}}}}}
//	$ go run ./examples/try declare '{"elicitation":{"form":{}}}' tools/call '{"name":"pay"}'
//	{"code":-32600,"message":"the client must declare: elicitation.url","data":{"requiredCapabilities":{"elicitation":{"url":{}}}}}
package main

import (
	"context"
	"log"
	"os"

	"github.com/troupe-run/troupe"
	"github.com/troupe-run/troupe/mcp"
)

// shirt is the form that order asks the user to fill in.
type shirt struct {
	Size string `json:"size" form:"title=Size;enum=S|M|L"`
}

func main() {
	srv := troupe.NewServer(mcp.Implementation{Name: "ask", Version: "1.0.0"}, nil)
	troupe.AddTool(srv, troupe.Tool{Name: "order", Description: "Orders a shirt.", Needs: mcp.CapClientElicitationForm},
		func(ctx context.Context, call *troupe.Call, _ struct{}) (string, error) {
			filled, action, err := troupe.ElicitAs[shirt](ctx, call, "Which size?")
			if err != nil || action != mcp.ElicitAccept {
				return "nothing ordered", err
			}
			return "ordered size " + filled.Size, nil
		})
	troupe.AddTool(srv, troupe.Tool{Name: "pay", Description: "Asks the user to pay.", Needs: mcp.CapClientElicitationURL},
		func(ctx context.Context, call *troupe.Call, _ struct{}) (string, error) {
			r, err := call.ElicitURL(ctx, "Please pay here.", "bill-7", "https://example.com/pay/7")
			if err != nil || r.Action != mcp.ElicitAccept {
				return "not paid", err
			}
			return "paid", call.ElicitationComplete(ctx, "bill-7") // once the page reports the payment
		})

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
