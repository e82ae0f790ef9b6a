package client

import (
	"errors"
	"fmt"
	"io"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"
)

// TestSSE checks where messages go, what they say, and that a message which is not taken is an
// error.
func TestSSE(t *testing.T) {
	t.Parallel()
	posted := make(chan string, 3)
	srv := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if r.Method == http.MethodGet {
			w.Header().Set("Content-Type", "text/event-stream")
			_, _ = io.WriteString(w, ": hello\n\nevent: endpoint\ndata: messages?sessionId=a.b\n\nevent: message\ndata: {}\n\n")
			return
		}
		body, _ := io.ReadAll(r.Body)
		posted <- fmt.Sprintf("%s %s", r.URL, body)
		if strings.Contains(string(body), "refuse") {
			w.WriteHeader(http.StatusNotFound)
			return
		}
		w.WriteHeader(http.StatusAccepted)
	}))
	t.Cleanup(srv.Close)
	s, err := OpenSSE(t.Context(), srv.URL+"/at/sse", nil)
	if err != nil {
		t.Fatal(err)
	}
	defer s.Close()
	if m, err := s.Next(); m != "{}" || err != nil {
		t.Errorf("the first message is %q and %v", m, err)
	}
	if _, err := s.Next(); !errors.Is(err, io.EOF) {
		t.Errorf("the stream ended with %v", err)
	}
	if err := s.SendRequest(t.Context(), "7", "tools/call", `{"name":"t"}`); err != nil {
		t.Error(err)
	}
	if err := s.SendAnswer(t.Context(), `"q"`, "{}"); err != nil {
		t.Error(err)
	}
	if err := s.SendNotification(t.Context(), "refuse", ""); err == nil {
		t.Error("a message that was not taken is no error")
	}
	for _, want := range []string{
		`/at/messages?sessionId=a.b {"jsonrpc":"2.0","id":7,"method":"tools/call","params":{"name":"t"}}`,
		`/at/messages?sessionId=a.b {"jsonrpc":"2.0","id":"q","result":{}}`,
		`/at/messages?sessionId=a.b {"jsonrpc":"2.0","method":"refuse"}`,
	} {
		if got := <-posted; got != want {
			t.Errorf("got  %s\nwant %s", got, want)
		}
	}
}

// TestSSERefusesOtherStreams checks that a stream must begin with an address of its own server, and
// has only messages.
func TestSSERefusesOtherStreams(t *testing.T) {
	t.Parallel()
	const endpoint = "event: endpoint\ndata: /messages\n\n"
	for name, tt := range map[string]struct {
		status          int
		events          string
		opens, delivers bool
	}{
		"a message":             {200, endpoint + "event: message\ndata: {}\n\n", true, true},
		"refused":               {429, "", false, false},
		"no endpoint":           {200, "event: message\ndata: {}\n\n", false, false},
		"an endpoint elsewhere": {200, "event: endpoint\ndata: http://example.com/messages\n\n", false, false},
		"a bad endpoint":        {200, "event: endpoint\ndata: ://\n\n", false, false},
		"no name":               {200, endpoint + "data: {}\n\n", true, false},
		"another name":          {200, endpoint + "event: error\ndata: {}\n\n", true, false},
		"an id":                 {200, endpoint + "id: 1.2.3\nevent: message\ndata: {}\n\n", true, false},
		"a second endpoint":     {200, endpoint + endpoint, true, false},
		"an empty message":      {200, endpoint + "event: message\ndata: \n\n", true, false},
		"half a message":        {200, endpoint + "event: message\ndata: {}\n", true, false},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			srv := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) {
				if tt.status == 200 {
					w.Header().Set("Content-Type", "text/event-stream")
				}
				w.WriteHeader(tt.status)
				_, _ = io.WriteString(w, tt.events)
			}))
			t.Cleanup(srv.Close)
			s, err := OpenSSE(t.Context(), srv.URL+"/sse", nil)
			if (err == nil) != tt.opens {
				t.Fatalf("opened with %v", err)
			}
			if err != nil {
				return
			}
			defer s.Close()
			if m, err := s.Next(); (err == nil) != tt.delivers {
				t.Errorf("the first message is %q and %v", m, err)
			}
		})
	}
}
