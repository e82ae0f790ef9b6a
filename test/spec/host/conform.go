package host

import (
	"encoding/json"
	"slices"
	"sync"
	"testing"

	"github.com/troupe-run/troupe/test/kit"
	"github.com/troupe-run/troupe/test/spec/official"
)

// conform makes c report every message that is not legal by the official schema of its session's revision, if that is
// there. A member that only later revisions have is not legal either.
func conform(c *kit.Client) { conformTo(c, R20251125) }

// conformTo is conform for a client that begins with another revision.
func conformTo(c *kit.Client, revision string) {
	spec, err := official.Of(revision)
	if err != nil {
		c.T.Errorf("official schema: %v", err)
	}
	if spec == nil {
		return
	}
	var mu sync.Mutex // guards asked and spec
	asked := map[string][]string{}
	c.Sent = func(message string) {
		var m struct {
			ID     json.RawMessage
			Method string
		}
		if json.Unmarshal([]byte(message), &m) == nil && m.Method != "" && m.ID != nil {
			mu.Lock()
			asked[string(m.ID)] = append(asked[string(m.ID)], m.Method)
			mu.Unlock()
		}
	}
	c.Received = func(message string) {
		var m struct{ ID json.RawMessage }
		_ = json.Unmarshal([]byte(message), &m) // Check reports a message that is no object
		mu.Lock()
		methods := asked[string(m.ID)]
		if slices.Contains(methods, "initialize") {
			var settled struct {
				Result struct{ ProtocolVersion string }
			}
			_ = json.Unmarshal([]byte(message), &settled)
			if schema, err := official.Of(settled.Result.ProtocolVersion); err != nil {
				c.T.Errorf("official schema: %v", err)
			} else if schema != nil {
				spec = schema
			}
		}
		spec := spec
		mu.Unlock()
		if err := spec.Check(message, methods); err != nil {
			c.T.Errorf("not legal by the official schema: %.2000s\n%v", message, err)
		}
	}
}

// Legal checks a message of a server against the official schema of 2026-07-28, if that is there.
func Legal(t *testing.T, message, method string) {
	t.Helper()
	spec, err := official.Of(R20260728)
	if err != nil {
		t.Fatalf("official schema: %v", err)
	}
	if spec == nil {
		return
	}
	if err := spec.Check(message, []string{method}); err != nil {
		t.Errorf("not legal by the official schema: %.2000s\n%v", message, err)
	}
}
