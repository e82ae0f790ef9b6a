// Command try is a client to try the other examples with. It begins a session,
// sends a request for each pair of arguments, a method and its params, and prints
// every message that it gets. When the server restarts, it resumes where it was.
//
//	go run ./examples/try tools/list '{}' tools/call '{"name":"greet"}'
//
// Some words are not methods. revision sets the protocol revision, declare the client's
// capabilities, and answer the answer to the server's questions. cancel says after how
// many messages to cancel the next request, and listen for how many messages to wait on
// the standalone stream. The environment variables URL and TOKEN set the endpoint and the
// Authorization header.
package main

import (
	"cmp"
	"fmt"
	"log"
	"os"
	"strconv"
	"strings"
	"time"
)

// patience is how long to wait for a server that is gone or silent.
const patience = 30 * time.Second

func main() {
	log.SetFlags(0)
	c := &client{
		url:          cmp.Or(os.Getenv("URL"), "http://127.0.0.1:8080/mcp"),
		token:        os.Getenv("TOKEN"),
		revision:     "2025-11-25",
		capabilities: `{"elicitation":{"form":{},"url":{}},"sampling":{"tools":{}},"roots":{"listChanged":true}}`,
		answer:       `{}`,
	}
	args := os.Args[1:]
	if len(args) == 0 || len(args)%2 != 0 {
		log.Fatal("want pairs of a method and its params, such as: tools/list '{}'")
	}
	for ; len(args) > 0; args = args[2:] {
		switch word, value := args[0], args[1]; word {
		case "revision":
			c.revision, c.session = value, ""
		case "declare":
			c.capabilities = value
		case "answer":
			c.answer = value
		case "cancel":
			c.cancel = number(value)
		case "listen":
			for range number(value) {
				select {
				case m := <-c.heard:
					c.handle(m)
				case <-time.After(patience):
					log.Fatal("nothing came")
				}
			}
		default:
			if c.revision == stateless {
				c.standing(word, value)
				continue
			}
			c.begin()
			if strings.HasPrefix(word, "notifications/") {
				c.post(fmt.Sprintf(`{"jsonrpc":"2.0","method":%q,"params":%s}`, word, value)).Body.Close()
				continue
			}
			c.request(word, value)
		}
	}
}

func number(value string) int {
	n, err := strconv.Atoi(value)
	if err != nil {
		log.Fatal(err)
	}
	return n
}
