package client

import (
	"context"
	"errors"
	"fmt"
	"net/http"
	"net/url"
)

// SSE speaks the HTTP+SSE transport of 2024-11-05: the session is one event stream, whose first
// event gives the address of the client's messages. Make one with OpenSSE. It does not initialize
// the session.
type SSE struct {
	to     string // the address of messages
	http   *http.Client
	events *Events
}

// OpenSSE opens a session at the URL of its stream, which lasts for as long as ctx does. If rt is
// nil, the client has its own connections.
func OpenSSE(ctx context.Context, at string, rt http.RoundTripper) (*SSE, error) {
	s := &SSE{http: newHTTP(rt)}
	base, err := url.Parse(at)
	if err != nil {
		return nil, fmt.Errorf("client: %w", err)
	}
	a, err := Do(ctx, s.http, http.MethodGet, at, "", make(http.Header))
	if err != nil {
		return nil, err
	}
	if s.events = a.Events; a.Events == nil || a.Status != http.StatusOK {
		a.Close()
		return nil, fmt.Errorf("client: no stream of HTTP+SSE: status %d: %s", a.Status, a.Body)
	}
	a.Events.noIDs = true
	first, err := a.Events.Next()
	if err == nil {
		err = s.takeEndpoint(base, first)
	}
	if err != nil {
		a.Close()
		return nil, err
	}
	return s, nil
}

// takeEndpoint takes the address of messages, which must be where the stream is: anything else
// would have the client send its messages to strangers.
func (s *SSE) takeEndpoint(at *url.URL, e Event) error {
	if e.Name != "endpoint" {
		return fmt.Errorf("client: the first event is %q, not the endpoint: %s", e.Name, e.Data)
	}
	to, err := at.Parse(e.Data)
	if err != nil {
		return fmt.Errorf("client: endpoint: %w", err)
	}
	if to.Scheme != at.Scheme || to.Host != at.Host {
		return fmt.Errorf("client: the endpoint %s is not at %s", to, at.Host)
	}
	s.to = to.String()
	return nil
}

// Next returns the next message of the server. Its errors are those of Events.Next, and one for an
// event that is no message.
func (s *SSE) Next() (string, error) {
	e, err := s.events.Next()
	switch {
	case err != nil:
		return "", err
	case e.Name != "message" || e.Data == "":
		return "", fmt.Errorf("client: event %q is no message: %s", e.Name, e.Data)
	}
	return e.Data, nil
}

// PostMessage sends a message, or a batch of them. The answer says whether it was taken; responses
// come on the stream.
func (s *SSE) PostMessage(ctx context.Context, body string) (*Answer, error) {
	a, err := Do(ctx, s.http, http.MethodPost, s.to, body, make(http.Header))
	if err == nil && a.Events != nil {
		a.Close()
		return nil, errors.New("client: a message of HTTP+SSE was answered with a stream of its own")
	}
	return a, err
}

// PostAccepted is Post for what must be taken: any answer but 202 without a body is an error.
func (s *SSE) PostAccepted(ctx context.Context, body string) error {
	a, err := s.PostMessage(ctx, body)
	if err != nil {
		return err
	}
	if a.Status != http.StatusAccepted || len(a.Body) > 0 {
		return fmt.Errorf("client: a message got %d %s: %.300s", a.Status, a.Body, body)
	}
	return nil
}

// SendRequest sends a request. id is a raw JSON token and params a JSON object, or "" for none.
func (s *SSE) SendRequest(ctx context.Context, id, method, params string) error {
	return s.PostAccepted(ctx, Request(id, method, params))
}

// SendNotification sends a notification.
func (s *SSE) SendNotification(ctx context.Context, method, params string) error {
	return s.PostAccepted(ctx, notificationOf(method, params))
}

// Answer sends the client's answer to a request of the server. id is the raw token of that request.
func (s *SSE) SendAnswer(ctx context.Context, id, result string) error {
	return s.PostAccepted(ctx, answerOf(id, result))
}

// Close breaks the stream off, which ends the session.
func (s *SSE) Close() { s.events.Close() }
