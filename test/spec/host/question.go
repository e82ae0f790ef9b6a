package host

import (
	"encoding/json"
	"testing"

	"github.com/troupe-run/troupe/test/kit"
)

// Asked is a question as the client gets it.
type Asked struct {
	ID     json.RawMessage
	Method string
	Params json.RawMessage
	Event  string `json:"-"` // the id of the event that brought it, from NextQuestion
}

// ParseAsked reads a request of the server.
func ParseAsked(t *testing.T, message string) (q Asked) {
	t.Helper()
	if err := json.Unmarshal([]byte(message), &q); err != nil {
		t.Fatalf("%s: %v", message, err)
	}
	return q
}

// NextQuestion reads events up to the next question.
func NextQuestion(t *testing.T, a *kit.Answer) Asked {
	t.Helper()
	for {
		if !a.Stream() {
			t.Fatalf("no stream: %s %s", a.Status, a.Body)
		}
		e, ok := a.Next()
		if !ok {
			t.Fatal("the stream ended before a question")
		}
		if e.Data == "" {
			continue
		}
		q := ParseAsked(t, e.Data)
		q.Event = e.ID
		if q.ID != nil && q.Method != "" {
			return q
		}
		if q.ID != nil {
			t.Fatalf("an answer before a question: %s", e.Data)
		}
	}
}

// Reply answers a question. what is the member with the answer: result or error.
func Reply(c *kit.Client, id json.RawMessage, what, value string) {
	c.T.Helper()
	if a := c.Post(`{"jsonrpc":"2.0","id":` + string(id) + `,"` + what + `":` + value + `}`); a.StatusCode != 202 || a.Body != "" {
		c.T.Errorf("answer: %s %q, want 202 and nothing", a.Status, a.Body)
	}
}

// Last returns the data of the last event, which is the response.
func Last(t *testing.T, a *kit.Answer) string {
	t.Helper()
	all := Payloads(a.All())
	if len(all) == 0 {
		t.Fatal("no answer")
	}
	return all[len(all)-1]
}

// Reading goes on reading a stream, because a client that does not read is cut off. The returned function waits for its
// end.
func Reading(a *kit.Answer) (wait func() []string) {
	all := make(chan []string, 1)
	go func() { all <- Payloads(a.All()) }()
	return func() []string { return <-all }
}
