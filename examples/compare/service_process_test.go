//go:build unix

package compare

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net/http"
	"slices"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/modelcontextprotocol/go-sdk/jsonrpc"
	"github.com/modelcontextprotocol/go-sdk/mcp"
)

// TestService runs both services for the same clients. The client of the sessions' revision does not know input_required, as
// clients of that time do not.
func TestService(t *testing.T) {
	ours, theirs := lines(t, "service", "troupe"), lines(t, "service", "gosdk")
	t.Logf("lines of service: %d with troupe, %d with go-sdk", ours, theirs)
	if ours >= theirs {
		t.Errorf("with troupe it takes %d lines, with go-sdk %d", ours, theirs)
	}
	for _, library := range []string{"troupe", "gosdk"} {
		t.Run(library, func(t *testing.T) {
			p := start(t, "./service/"+library)
			t.Run("routes", func(t *testing.T) { testRoutes(t, p) })
			for _, revision := range revisions {
				t.Run(revision, func(t *testing.T) { testService(t, p, revision) })
			}
			t.Run("drain", func(t *testing.T) { testDrain(t, p) })
		})
	}
}

// testRoutes asks for what stands beside MCP.
func testRoutes(t *testing.T, p program) {
	for path, want := range map[string]string{
		"/": "trips\n", "/healthz": "", "/readyz": "",
		"/.well-known/oauth-protected-resource": `"` + p.url + `/mcp"`,
	} {
		r, err := http.Get(p.url + path)
		if err != nil {
			t.Fatal(err)
		}
		body, _ := io.ReadAll(r.Body)
		_ = r.Body.Close()
		if r.StatusCode != http.StatusOK || !strings.Contains(string(body), want) {
			t.Errorf("%s: %d %q", path, r.StatusCode, body)
		}
	}
	r, err := http.Post(p.url+"/mcp", "application/json", strings.NewReader("{}"))
	if err != nil {
		t.Fatal(err)
	}
	_ = r.Body.Close()
	if want := p.url + "/.well-known/oauth-protected-resource"; r.StatusCode != http.StatusUnauthorized || !strings.Contains(r.Header.Get("WWW-Authenticate"), want) {
		t.Errorf("without a token: %d, %q", r.StatusCode, r.Header.Get("WWW-Authenticate"))
	}
}

// customer is a client with a customer's token that notes what it is told.
type customer struct {
	*mcp.ClientSession
	progress chan *mcp.ProgressNotificationParams
	updates  chan string
}

// connect connects a customer. asked answers the questions.
func connect(t *testing.T, p program, revision string, token bearer, asked func(message string) (map[string]any, error)) customer {
	t.Helper()
	c := customer{progress: make(chan *mcp.ProgressNotificationParams, 1000), updates: make(chan string, 100)}
	o := &mcp.ClientOptions{
		MultiRoundTrip: &mcp.MultiRoundTripOptions{Disabled: revision < "2026-07-28"},
		ProgressNotificationHandler: func(_ context.Context, r *mcp.ProgressNotificationClientRequest) {
			c.progress <- r.Params
		},
		ResourceUpdatedHandler: func(_ context.Context, r *mcp.ResourceUpdatedNotificationRequest) { c.updates <- r.Params.URI },
		ElicitationHandler: func(_ context.Context, r *mcp.ElicitRequest) (*mcp.ElicitResult, error) {
			content, err := asked(r.Params.Message)
			return &mcp.ElicitResult{Action: "accept", Content: content}, err
		},
	}
	s, err := mcp.NewClient(&mcp.Implementation{Name: "compare", Version: "1.0.0"}, o).
		Connect(t.Context(), &mcp.StreamableClientTransport{Endpoint: p.url + "/mcp", HTTPClient: &http.Client{Transport: token}}, &mcp.ClientSessionOptions{ProtocolVersion: revision})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = s.Close() })
	if got := s.InitializeResult().ProtocolVersion; got != revision {
		t.Errorf("settled on %s", got)
	}
	c.ClientSession = s
	return c
}

func (c customer) call(t *testing.T, tool string, args map[string]any) (string, error) {
	t.Helper()
	p := &mcp.CallToolParams{Name: tool, Arguments: args}
	p.SetProgressToken("token")
	return textOf(c.CallTool(t.Context(), p))
}

// booking answers the two questions of book.
func booking(message string) (map[string]any, error) {
	switch message {
	case "Which day?":
		return map[string]any{"date": "2026-12-24"}, nil
	case "How many guests on 2026-12-24?":
		return map[string]any{"guests": 4}, nil
	}
	return nil, fmt.Errorf("asked %q", message)
}

func testService(t *testing.T, p program, revision string) {
	ada, bob := connect(t, p, revision, "token-ada", booking), connect(t, p, revision, "token-bob", booking)

	for who, want := range map[string][]string{"ada": {"book", "quote", "scan", "set_price"}, "bob": {"book", "quote", "scan"}} {
		c := map[string]customer{"ada": ada, "bob": bob}[who]
		l, err := c.ListTools(t.Context(), nil)
		if err != nil {
			t.Fatal(err)
		}
		var names []string
		for _, tool := range l.Tools {
			names = append(names, tool.Name)
		}
		if slices.Sort(names); !slices.Equal(names, want) {
			t.Errorf("%s sees %v", who, names)
		}
	}
	if s, err := bob.call(t, "set_price", map[string]any{"city": "Oslo", "day": 1}); err == nil {
		t.Errorf("bob sets a price: %q", s)
	}

	var offer struct{ Total int }
	r, err := ada.CallTool(t.Context(), &mcp.CallToolParams{Name: "quote", Arguments: map[string]any{"city": "Bergen", "days": 3}})
	if _, err := textOf(r, err); err != nil {
		t.Fatal(err)
	}
	if raw, err := json.Marshal(r.StructuredContent); err != nil || json.Unmarshal(raw, &offer) != nil || offer.Total != 270 {
		t.Errorf("quote: %s, %v", raw, err)
	}
	if s, err := ada.call(t, "quote", map[string]any{"city": "Bergen", "days": 31}); err == nil {
		t.Errorf("quote for too many days: %q", s)
	}
	if _, err := ada.call(t, "quote", map[string]any{"city": "Atlantis", "days": 3}); err == nil || !strings.Contains(err.Error(), "nobody goes to Atlantis") {
		t.Errorf("quote for nowhere: %v", err)
	}

	if s, err := ada.call(t, "scan", map[string]any{"rows": 5}); s != "scanned 5 rows" || err != nil {
		t.Errorf("scan: %q, %v", s, err)
	}
	if first := receive(t, ada.progress); first.Progress < 1 || first.Progress > 5 || first.Total != 5 {
		t.Errorf("progress: %+v", first)
	}
	if s, err := bob.call(t, "book", map[string]any{"city": "Oslo"}); s != "booked Oslo for 4 on 2026-12-24" || err != nil {
		t.Errorf("book: %q, %v", s, err)
	}

	testPrices(t, ada, bob)
}

// testPrices looks at the resources, and at what clients are told of them.
func testPrices(t *testing.T, ada, bob customer) {
	ref := &mcp.CompleteReference{Type: "ref/prompt", Name: "plan"}
	if c, err := bob.Complete(t.Context(), &mcp.CompleteParams{Ref: ref, Argument: mcp.CompleteParamsArgument{Name: "city", Value: "M"}}); err != nil || !slices.Equal(c.Completion.Values, []string{"Madrid"}) {
		t.Errorf("completion: %+v, %v", c, err)
	}
	if g, err := bob.GetPrompt(t.Context(), &mcp.GetPromptParams{Name: "plan", Arguments: map[string]string{"city": "Oslo"}}); err != nil || len(g.Messages) != 1 {
		t.Errorf("prompt: %+v, %v", g, err)
	}
	_, err := bob.ReadResource(t.Context(), &mcp.ReadResourceParams{URI: "price://Atlantis"})
	if e := (*jsonrpc.Error)(nil); !errors.As(err, &e) || !bytes.Contains(e.Data, []byte("price://Atlantis")) {
		t.Errorf("a price of nowhere: %v", err)
	}
	const madrid = "price://Madrid"
	if err := bob.Subscribe(t.Context(), &mcp.SubscribeParams{URI: madrid}); err != nil {
		t.Fatal(err)
	}
	if s, err := ada.call(t, "set_price", map[string]any{"city": "Madrid", "day": 111}); s != "set" || err != nil {
		t.Fatalf("set_price: %q, %v", s, err)
	}
	if uri := receive(t, bob.updates); uri != madrid {
		t.Errorf("told of %s", uri)
	}
	if r, err := bob.ReadResource(t.Context(), &mcp.ReadResourceParams{URI: madrid}); err != nil || r.Contents[0].Text != "111" {
		t.Errorf("read: %+v, %v", r, err)
	}
}

// testDrain ends the program in the middle of a call that has asked, and answers then: the call ends well, and so does the program.
func testDrain(t *testing.T, p program) {
	bob := connect(t, p, "2025-11-25", "token-bob", func(message string) (map[string]any, error) {
		if message == "Which day?" {
			if err := p.cmd.Process.Signal(syscall.SIGTERM); err != nil {
				return nil, err
			}
		}
		return booking(message)
	})
	if s, err := bob.call(t, "book", map[string]any{"city": "Oslo"}); s != "booked Oslo for 4 on 2026-12-24" || err != nil {
		t.Errorf("book during a drain: %q, %v", s, err)
	}
	_ = bob.Close()
	p.ends(t)
}

// receive waits for what comes through c.
func receive[T any](t *testing.T, c <-chan T) (v T) {
	t.Helper()
	select {
	case v = <-c:
	case <-time.After(patience):
		t.Fatal("nothing came")
	}
	return v
}
