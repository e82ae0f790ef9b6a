package everything

import (
	"context"
	"fmt"
	"strings"

	"github.com/troupe-run/troupe"
	"github.com/troupe-run/troupe/mcp"
)

type visitInput struct {
	URL string `json:"url" jsonschema:"what the user is to open"`
}

type enterInput struct {
	URL     string `json:"url" jsonschema:"what the user must have opened before"`
	Visited bool   `json:"visited,omitempty" jsonschema:"whether the user has"`
}

// addClient adds tools with the other requests to a client: a ping, its roots, and
// that its user opens a URL, during the call or before it.
func addClient(s *troupe.Server) {
	troupe.AddTool(s, troupe.Tool{
		Name:        "ping",
		Description: "Asks the client whether it is there.",
		Rerun:       troupe.Safe,
	}, func(ctx context.Context, call *troupe.Call, _ struct{}) (string, error) {
		if err := call.Ping(ctx); err != nil {
			return "", err
		}
		return "the client is there", nil
	})
	troupe.AddTool(s, troupe.Tool{
		Name:        "roots",
		Description: "Lists the client's roots, one a line.",
		Needs:       mcp.CapClientRoots,
		Rerun:       troupe.Safe,
	}, func(ctx context.Context, call *troupe.Call, _ struct{}) (string, error) {
		roots, err := call.Roots(ctx)
		if err != nil {
			return "", err
		}
		var lines []string
		for _, r := range roots {
			lines = append(lines, r.URI)
		}
		return strings.Join(lines, "\n"), nil
	})
	troupe.AddTool(s, troupe.Tool{
		Name:        "visit",
		Description: "Asks the user to open a URL, and says that the visit is over.",
		Needs:       mcp.CapClientElicitationURL,
		Rerun:       troupe.Safe,
	}, func(ctx context.Context, call *troupe.Call, in visitInput) (string, error) {
		const id = "visit"
		r, err := call.ElicitURL(ctx, "Please open this page.", id, in.URL)
		if err != nil {
			return "", err
		}
		if err := call.ElicitationComplete(ctx, id); err != nil {
			return "", err
		}
		return fmt.Sprintf("the user said %s", r.Action), nil
	})
	troupe.AddTool(s, troupe.Tool{
		Name:        "enter",
		Description: "Lets in who has opened a URL, and has the client ask the others to.",
	}, func(_ context.Context, _ *troupe.Call, in enterInput) (string, error) {
		if !in.Visited {
			return "", troupe.URLRequired(mcp.ElicitURL{Message: "Please open this page first.", ElicitationID: "enter", URL: in.URL})
		}
		return "come in", nil
	})
}
