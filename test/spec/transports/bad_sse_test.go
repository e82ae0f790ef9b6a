package transports_test

import (
	"fmt"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/troupe-run/troupe"
	"github.com/troupe-run/troupe/test/kit"
	"github.com/troupe-run/troupe/test/kit/when"
	"github.com/troupe-run/troupe/test/spec/host"
)

const connectAnew = "unknown session: connect anew"

// aliveOn makes an ordinary call in a session over HTTP+SSE, whose response must be the next message
// there: a refused message has left nothing on the stream.
func (e *badEnv) aliveOn(s *kit.SSE) {
	e.T.Helper()
	e.n++
	s.T = e.T
	id := fmt.Sprintf(`"alive-%d"`, e.n)
	host.Equal(e.T, "the call afterwards", s.Ask(host.Call(id, "echo", `{"text":"still here"}`)), host.TextResult(id, "still here"))
}

// TestBadMessagesOverSSE checks that a session over HTTP+SSE refuses data that is not a message like any
// other endpoint, in the response to the POST, and answers messages on the stream.
func TestBadMessagesOverSSE(t *testing.T) {
	e := newBadEnv(t)
	s := e.Unchecked().OpenSSE("/sse")
	defer s.Stream.Close()
	s.Handshake("2025-11-25", `{}`)
	rows := badMessages()
	for i := range rows {
		row := &rows[i]
		body, header, onStream := row.body, row.header, ""
		if row.status == 200 {
			row.status, onStream, row.want = 202, row.want, ""
		}
		row.do = func(e *badEnv) *kit.Answer {
			a := s.Post(body, header...)
			if onStream != "" {
				m, _ := s.Next()
				host.Equal(e.T, "on the stream", m, onStream)
			}
			e.aliveOn(s)
			return a
		}
	}
	runBadRows(t, e, rows)
}

func TestBadRequestsOverSSE(t *testing.T) { // not in parallel, as its end measures the heap
	when.Long(t, "connections linger for half a second")
	e := newBadEnv(t)
	s := e.Unchecked().OpenSSE("/sse")
	defer s.Stream.Close()
	s.Handshake("2024-11-05", `{}`)
	fresh := e.Unchecked().OpenSSE("/sse")
	defer fresh.Stream.Close()
	anns := host.As(e.Unchecked(), "ann").OpenSSE("/sse")
	defer anns.Stream.Close()
	anns.Handshake("2024-11-05", `{}`)
	at := func(path string) *kit.Client {
		c := e.Unchecked()
		c.URL = strings.TrimSuffix(e.URL, "/mcp") + path
		return c
	}
	_, query, _ := strings.Cut(s.Messages, "?")
	_, id, _ := strings.Cut(query, "=")
	ping := host.Method("1", "ping", "")
	to := func(name, path, body string, status int, want string) badRow {
		return badRow{name: name, status: status, want: want, do: func(e *badEnv) *kit.Answer {
			a := at(path).Post(body)
			e.aliveOn(s)
			return a
		}}
	}
	badQuery := host.Fault("", host.Invalid, "The query must hold one valid sessionId", "")
	get := func(name, path string, status int, want string, header ...string) badRow {
		return badRow{name: name, status: status, want: want, do: func(*badEnv) *kit.Answer { return at(path).Do("GET", "", header...) }}
	}
	notAllowed := host.Fault("", host.Invalid, "Method not allowed", "")
	rows := []badRow{
		to("no session", "/messages", ping, 400, badQuery),
		to("an empty one", "/messages?sessionId=", ping, 400, badQuery),
		to("two", "/messages?"+query+"&"+query, ping, 400, badQuery),
		to("with a line break", "/messages?sessionId=a%0ab", ping, 400, badQuery),
		to("a broken query", "/messages?sessionId=%zz", ping, 400, badQuery),
		to("by another name", "/messages?session_id="+id, ping, 400, badQuery),
		to("an unknown one", "/messages?sessionId=x", ping, 404, host.Fault("1", host.Invalid, connectAnew, "")),
		to("a very long one", "/messages?sessionId="+strings.Repeat("a", 8000), ping, 404, host.Fault("1", host.Invalid, connectAnew, "")),
		to("one with a wildcard", "/messages?sessionId="+strings.Replace(id, ".", ".*", 1), ping, 404, host.Fault("1", host.Invalid, connectAnew, "")),
		to("of somebody else", "/messages?"+strings.SplitN(anns.Messages, "?", 2)[1], ping, 404, host.Fault("1", host.Invalid, connectAnew, "")),
		to("of another server", "/bare/messages?"+query, ping, 404, host.Fault("1", host.Invalid, connectAnew, "")),
		to("of Streamable HTTP", "/messages?sessionId="+e.c.Session, ping, 404, host.Fault("1", host.Invalid, connectAnew, "")),
		to("a notification to nobody", "/messages?sessionId=x", host.Note("notifications/initialized", ""), 404, host.Fault("", host.Invalid, connectAnew, "")),
		to("an answer to nobody", "/messages?sessionId=x", `{"jsonrpc":"2.0","id":"x","result":{}}`, 404, host.Fault(`"x"`, host.Invalid, connectAnew, "")),
		to("a batch to nobody", "/messages?sessionId=x", host.Batch(ping), 404, host.Fault("", host.Invalid, connectAnew, "")),
		to("no JSON to nobody", "/messages?sessionId=x", `{`, 400, host.Fault("", host.BadJSON, "unexpected end of the message, at byte 2", "")),
		to("POST to the stream", "/sse", ping, 405, notAllowed),
		get("GET of messages", "/messages?"+query, 405, notAllowed),
		get("a stream that is not accepted", "/sse", 406, host.Fault("", host.Invalid, "Accept must admit text/event-stream", ""), "Accept", "application/json"),
		get("another site's page", "/sse", 403, host.Fault("", host.Invalid, "Origin not allowed: --allow-origin and Options.HTTP.AllowOrigins allow it", ""), "Origin", "https://evil.example.com"),
		get("not authenticated", "/sse", 401, host.Fault("", host.Invalid, "Unauthorized", ""), "X-User", "eve"),
	}
	for _, path := range []string{"/sse", "/messages?" + query} {
		for _, m := range []string{"DELETE", "PUT", "PATCH"} {
			rows = append(rows, badRow{name: m + " " + path[:4], status: 405, want: notAllowed, do: func(*badEnv) *kit.Answer { return at(path).Do(m, "") }})
		}
	}
	in := func(name string, c *kit.SSE, status int, want, body string, header ...string) {
		rows = append(rows, badRow{name: name, status: status, want: want, do: func(e *badEnv) *kit.Answer {
			a := c.Post(body, header...)
			e.aliveOn(s)
			return a
		}})
	}
	in("text", s, 415, host.Fault("", host.Invalid, "Content-Type must be application/json in UTF-8", ""), ping, "Content-Type", "text/plain")
	in("compressed", s, 415, host.Fault("", host.Invalid, "Content-Encoding is not supported", ""), ping, "Content-Encoding", "gzip")
	in("another site's page posts", s, 403, host.Fault("", host.Invalid, "Origin not allowed: --allow-origin and Options.HTTP.AllowOrigins allow it", ""), ping, "Origin", "https://evil.example.com")
	in("of another revision", s, 400, host.Fault("1", host.Invalid, "MCP-Protocol-Version is not the session's, 2024-11-05", ""), ping, "MCP-Protocol-Version", "2025-06-18")
	in("5 MB", s, 413, host.Fault("", host.Invalid, "the message is too large: max-body allows 4194304 bytes", ""), strings.Repeat(" ", 5<<20))
	in("a batch of 101", s, 400, host.Fault("", host.Invalid, "the batch has too many messages", ""), `[1`+strings.Repeat(",1", 100)+`]`)
	in("an empty batch", s, 400, host.Fault("", host.Invalid, "the batch is empty", ""), `[]`)
	in("a batch with initialize", s, 400, host.Fault("", host.Invalid, "initialize must not be part of a batch", ""), host.Batch(ping, host.Initialize("2", "")))
	in("a mixed batch", s, 400, host.Fault("", host.Invalid, "a batch holds either responses or requests and notifications", ""), host.Batch(ping, `{"jsonrpc":"2.0","id":"x","result":{}}`))
	in("a batch with one id twice", s, 400, host.Fault("", host.Invalid, "batch, message 2: the id of another request of the batch", ""), host.Batch(ping, ping))
	in("a batch with what is no message", s, 400, host.Fault("", host.Invalid, "batch, message 2: the id must be a string or an integer", ""), host.Batch(ping, host.Method("null", "ping", "")))
	in("a batch before initialize", fresh, 400, host.Fault("", host.Invalid, "initialize must not be part of a batch", ""), host.Batch(ping))
	runBadRows(t, e, rows)

	// Bad input that is a message gets its response on the stream.
	e.T, s.T, fresh.T = t, t, t
	for body, want := range map[string]string{
		host.Method("1", "no/such", ""):                           host.Fault("1", host.NoMethod, "method not found: no/such", ""),
		host.Call("1", "no such", `{}`):                           host.Fault("1", host.BadParam, "Unknown tool: no such", ""),
		host.Call("1", "strict", `{"count":0}`):                   host.Fault("1", host.BadParam, "invalid arguments: at '/count': minimum: got 0, want 1", ""),
		host.Method("1", "elicitation/create", "{}"):              host.Fault("1", host.NoMethod, "method not found: elicitation/create", ""),
		host.Method("1", "tasks/list", ""):                        host.Fault("1", host.NoMethod, "method not found: tasks/list", ""),
		host.Method("1", "resources/subscribe", "{}"):             host.Fault("1", host.BadParam, "uri must be an absolute URI", ""),
		host.Initialize("1", ""):                                  host.Fault("1", host.Invalid, "the session is initialized already", ""),
		host.Method("1", "tools/list", `{"cursor":"`+e.page+`"}`): "",
	} {
		if got := s.Ask(body); got != want && want != "" {
			t.Errorf("%s:\n got %s\nwant %s", body, got, want)
		}
	}
	for body, want := range map[string]string{
		host.Initialize("1", ""):                   host.Fault("1", host.BadParam, needsInit, ""),
		host.Initialize("2", `{}`):                 host.Fault("2", host.BadParam, needsInit, ""),
		host.Method("3", "tools/list", ""):         host.Fault("3", host.Invalid, "initialize first", ""),
		host.Call("4", "echo", `{"text":"early"}`): host.Fault("4", host.Invalid, "initialize first", ""),
		host.Method("5", "ping", ""):               `{"jsonrpc":"2.0","id":5,"result":{}}`,
	} {
		host.Equal(t, "before initialize: "+body, fresh.Ask(body), want)
	}
	// A cursor of a session of Streamable HTTP is good here as well: it has the same principal and server.
	host.Contains(t, "tools/list", s.Ask(host.Method("1", "tools/list", `{"cursor":"`+e.page+`"}`)), `"tools":[`)
}

// TestHostileSSE checks that harm that a client does to one session over HTTP+SSE stays in that session.
func TestHostileSSE(t *testing.T) {
	kit.Bubble(t, func(t *testing.T) {
		h := host.New(t, troupe.Options{Shared: troupe.SharedLimits{StreamsPerPrincipal: 5}}, nil)
		s := h.SSE()
		s.Handshake("2024-11-05", `{}`)
		// The client never reads, and requests everything that needs no call.
		deaf := h.SSE()
		big := `"` + strings.Repeat("x", 300<<10) + `"`
		for range 10 {
			for _, body := range []string{host.Method(big, "ping", ""), host.Method(big, "tools/list", ""), host.Initialize(big, "")} {
				if a := deaf.Post(body); a.StatusCode != 202 && a.StatusCode != 404 {
					t.Fatalf("%s %s", a.Status, a.Body)
				}
			}
		}
		if a := deaf.Post(host.Method("1", "ping", "")); a.StatusCode != 404 {
			t.Errorf("a client that does not read: %s, want its session ended", a.Status)
		}
		// Connections that never initialize are bounded like all, and end with their clients.
		var idle []*kit.SSE
		for range 4 {
			idle = append(idle, h.SSE())
		}
		c := h.Unchecked()
		c.URL = strings.TrimSuffix(h.URL, "/mcp") + "/sse"
		if a := c.Do("GET", "", "Accept", "text/event-stream"); a.StatusCode != 429 || a.Header.Get("Retry-After") != "1" {
			t.Errorf("one connection too many: %s", a.Status)
		}
		for _, i := range idle {
			i.Stream.Close()
		}
		time.Sleep(20 * time.Second) // each of them has had a comment meanwhile
		host.Equal(t, "afterwards", s.Ask(host.Call("1", "echo", `{"text":"x"}`)), host.TextResult("1", "x"))
		h.SSE().Handshake("2024-11-05", `{}`)
		// Answers and cancels for questions and calls of other clients.
		question := s.Ask(host.Call("2", "pingback", `{}`))
		other := h.SSE()
		other.Handshake("2024-11-05", `{}`)
		other.Post(host.AnswerTo(question, `{}`))
		other.Post(host.Cancel("2"))
		other.Post(host.Note("notifications/cancelled", `{"requestId":`+parsedID(t, question)+`}`))
		synctest.Wait()
		host.Equal(t, "the question is answered by who was asked", s.Ask(host.AnswerTo(question, `{}`)), host.TextResult("2", "pong"))
	})
}

func parsedID(t *testing.T, message string) string { return string(host.ParseAsked(t, message).ID) }
