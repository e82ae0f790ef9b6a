package kit

import (
	"net/http"
	"net/url"
	"strings"
)

// SSE speaks the HTTP+SSE transport of 2024-11-05.
type SSE struct {
	*Client
	Stream   *Answer
	Messages string // where messages are POSTed
}

// OpenSSE opens the session that lives on the stream at path beside c's URL. It fails the test if the first event is
// not the endpoint.
func (c *Client) OpenSSE(path string) *SSE {
	c.T.Helper()
	at, err := url.Parse(c.URL)
	if err != nil {
		c.T.Fatal(err)
	}
	own := *c
	at = at.ResolveReference(&url.URL{Path: path})
	own.URL, own.Session = at.String(), ""
	a := own.Do(http.MethodGet, "", "Accept", "text/event-stream")
	if !a.Stream() {
		c.T.Fatalf("GET %s: %s %s", path, a.Status, a.Body)
	}
	e, ok := a.Next()
	if !ok || e.Name != "endpoint" {
		c.T.Fatalf("GET %s: first event %+v", path, e)
	}
	to, err := at.Parse(e.Data)
	if err != nil {
		c.T.Fatal(err)
	}
	own.URL = to.String()
	return &SSE{Client: &own, Stream: a, Messages: to.String()}
}

// Next returns the next message from the server, and false at the end.
func (s *SSE) Next() (string, bool) {
	s.T.Helper()
	e, ok := s.Stream.Next()
	if ok && e.Name != "message" {
		s.T.Errorf("event %+v, want a message", e)
	}
	return e.Data, ok
}

// Ask sends a request and returns the next message.
func (s *SSE) Ask(body string) string {
	s.T.Helper()
	if a := s.Post(body, "Accept", ""); a.StatusCode != http.StatusAccepted || a.Body != "" {
		s.T.Fatalf("POST %s: %s %s", body, a.Status, a.Body)
	}
	m, ok := s.Next()
	if !ok {
		s.T.Fatalf("the stream ended before the answer to %s", body)
	}
	return m
}

// Handshake initializes the session and returns the result.
func (s *SSE) Handshake(revision, capabilities string) string {
	s.T.Helper()
	result := s.Ask(`{"jsonrpc":"2.0","id":"init","method":"initialize","params":{"protocolVersion":"` + revision + `","capabilities":` + capabilities +
		`,"clientInfo":{"name":"kit","version":"1"}}}`)
	if !strings.Contains(result, `"protocolVersion":"`+revision+`"`) {
		s.T.Fatalf("initialize: %s", result)
	}
	if a := s.Post(`{"jsonrpc":"2.0","method":"notifications/initialized"}`, "Accept", ""); a.StatusCode != http.StatusAccepted {
		s.T.Fatalf("initialized: %s", a.Status)
	}
	return result
}
