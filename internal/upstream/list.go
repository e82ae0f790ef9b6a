package upstream

import (
	"bytes"
	"context"
	"fmt"

	"github.com/troupe-run/troupe/codec"
)

// A Listing is a list of a backend over all its pages.
type Listing struct {
	Items [][]byte // raw JSON, each as the backend wrote it
	// First is the whole result of the first page, for what it has beside items.
	First []byte
}

// List asks for all pages of a list: method is tools/list or one like it, and member the name of the items in
// its result. The error is an *[mcp.Error] if the backend answers with one, or a *[Failure]: with [ReasonListing] for a
// list that has no end, or goes beyond MostItems, MostPages or MostListing. What was read before is returned in any
// case.
func (c *Conn) List(ctx context.Context, method, member string) (Listing, error) {
	var l Listing
	var cursor []byte // the raw token
	size := 0
	for page := 0; ; page++ {
		var params []byte
		if cursor != nil {
			params = append(append([]byte(`{"cursor":`), cursor...), '}')
		}
		r, err := c.Do(ctx, Request{Method: method, Params: params})
		if err != nil {
			return l, err
		}
		if r.Kind == Refused {
			return l, r.Err()
		}
		raw := codec.Field(r.Result, member)
		if r.Kind != Complete || len(raw) == 0 || raw[0] != '[' {
			return l, malformed(fmt.Sprintf("the backend's result of %s has no list of %s", method, member), r.Result)
		}
		if page == 0 {
			l.First = r.Result
		}
		if size += len(r.Result); size > MostListing {
			return l, listingFailure("the backend's list is too large")
		}
		for item := range codec.Elements(raw) {
			if len(l.Items) == MostItems {
				return l, listingFailure("the backend's list has too many items")
			}
			l.Items = append(l.Items, item)
		}
		next := codec.Optional(r.Result, "nextCursor")
		switch {
		case next == nil || string(next) == `""`:
			return l, nil
		case next[0] != '"':
			return l, malformed(fmt.Sprintf("the backend's result of %s has a cursor that is no text", method), r.Result)
		case bytes.Equal(next, cursor) || page+1 == MostPages:
			return l, listingFailure("the backend's list does not end")
		}
		cursor = next
	}
}

func listingFailure(text string) *Failure {
	return &Failure{Why: ReasonListing, Outcome: NotRun, Text: text}
}
