package client

import (
	"errors"
	"io"
	"net/http"
	"net/http/httptest"
	"testing"

	"github.com/google/go-cmp/cmp"
)

func TestEvents(t *testing.T) {
	t.Parallel()
	srv := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		w.Header().Set("Content-Type", "text/event-stream")
		_, _ = io.WriteString(w, "id: s.0.0\nretry: 1000\ndata: \n\n: still here\n\nid: s.1.0\ndata: a\ndata: b\n\nretry: 500\ndata:\n\n")
		if r.Header.Get("Last-Event-ID") == "break" {
			w.(http.Flusher).Flush()
			panic(http.ErrAbortHandler)
		}
	}))
	t.Cleanup(srv.Close)
	for _, tt := range []struct {
		from string
		end  Stage
	}{{"", 0}, {"break", Broken}} {
		c := New(srv.URL, nil)
		a, err := c.ResumeStream(t.Context(), tt.from)
		if err != nil {
			t.Fatal(err)
		}
		var got []Event
		for {
			e, err := a.Events.Next()
			if err == nil {
				got = append(got, e)
				continue
			}
			if Failed(err) != tt.end || tt.end == 0 && !errors.Is(err, io.EOF) {
				t.Errorf("from %q: ended with %v", tt.from, err)
			}
			break
		}
		if diff := cmp.Diff([]Event{{ID: "s.0.0", Retry: 1000}, {ID: "s.1.0", Data: "a\nb"}}, got); diff != "" {
			t.Error(diff)
		}
		if r := c.StreamRecord("s"); r == nil || len(r.Connections()) != 1 || len(r.Connections()[0].Events) != 2 {
			t.Errorf("recorded %v", r)
		}
	}
}

func TestStages(t *testing.T) {
	t.Parallel()
	srv := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if r.Method == http.MethodPost {
			panic(http.ErrAbortHandler) // before the first byte
		}
		w.Header().Set("Content-Length", "10")
		_, _ = io.WriteString(w, "short")
	}))
	c := New(srv.URL, nil)
	if _, err := c.SendRequest(t.Context(), "1", "ping", ""); Failed(err) != Lost {
		t.Errorf("no answer: %v, want lost", err)
	}
	if _, err := c.EndSession(t.Context()); Failed(err) != Broken {
		t.Errorf("half an answer: %v, want broken", err)
	}
	srv.Close()
	if _, err := c.SendRequest(t.Context(), "1", "ping", ""); Failed(err) != Refused {
		t.Errorf("nobody there: %v, want refused", err)
	}
}
