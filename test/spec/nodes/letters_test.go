package nodes_test

import (
	"context"
	"fmt"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/troupe-run/troupe"
	"github.com/troupe-run/troupe/mcp"
	"github.com/troupe-run/troupe/test/spec/host"
)

// TestAnswersOfAnySizeAtAnotherNode sends a client's answer to a node that does not run the call, with as much as a body may have. That node
// takes it at once, and the handler gets all of it.
func TestAnswersOfAnySizeAtAnotherNode(t *testing.T) {
	host.Fleet(t, 2, troupe.Options{}, nil, func(t *testing.T, hosts []*host.Host) {
		c := hosts[0].Unchecked().Initialize(`{"elicitation":{"form":{}}}`)
		there := hosts[1].Moved(c)
		for i, size := range []int{1, 900 << 10, 1500 << 10, 4<<20 - 200} {
			a := c.Post(host.Call(fmt.Sprint(i+1), "ask", `{"question":"which?"}`))
			answer := `{"jsonrpc":"2.0","id":` + string(host.NextQuestion(t, a).ID) + `,"result":{"action":"accept","content":{"answer":"` + strings.Repeat("<", size) + `"}}}`
			if r := there.Post(answer); r.StatusCode != 202 {
				t.Errorf("an answer of %d bytes: %s %.200s", len(answer), r.Status, r.Body)
				c.Post(answer)
			}
			if all := fmt.Sprint(a.All()); strings.Count(all, "<")+strings.Count(all, `\u003c`) != size {
				t.Errorf("the handler of an answer of %d bytes: %.200s", len(answer), all)
			}
		}
	})
}

// TestMessagesOfAnySizeToASessionElsewhere sends large messages to a session whose standalone stream is on another node than the handler.
func TestMessagesOfAnySizeToASessionElsewhere(t *testing.T) {
	var took chan error
	host.Fleet(t, 2, troupe.Options{}, func(h *host.Host) {
		if took == nil {
			took = make(chan error, 1)
		}
		troupe.AddTool(h.Server, troupe.Tool{Name: "large"}, func(ctx context.Context, call *troupe.Call, in struct{ Size int }) (string, error) {
			ctx, cancel := context.WithTimeout(ctx, 5*time.Second) // beyond that it would fail after a minute
			defer cancel()
			took <- call.Peer().Log(ctx, mcp.LevelInfo, "large", strings.Repeat("x", in.Size))
			return "", nil
		})
	}, func(t *testing.T, hosts []*host.Host) {
		c := hosts[0].Unchecked().Initialize(`{}`)
		s := hosts[1].Moved(c).Get("")
		synctest.Wait()
		for i, size := range []int{1, 1500 << 10, 5 << 20} {
			c.PostLater(host.Call(fmt.Sprint(i+1), "large", fmt.Sprintf(`{"Size":%d}`, size)))
			if err := <-took; err != nil {
				t.Errorf("a message of %d bytes: %v", size, err)
				continue
			}
			for came := false; !came; {
				e, ok := s.Next()
				if !ok {
					t.Fatalf("the stream ended before a message of %d bytes", size)
				}
				came = strings.Count(string(e.Data), "x") >= size
			}
		}
		s.Close()
	})
}
