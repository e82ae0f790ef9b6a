package troupe_test

import (
	"fmt"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/troupe-run/troupe"
	"github.com/troupe-run/troupe/internal/testkit"
)

const connectAnew = "unknown session: connect anew"

// aliveOn makes an ordinary call in a session over HTTP+SSE, whose answer must be the
// next message there: what was refused has left nothing on the stream.
func (e *badEnv) aliveOn(s *testkit.SSE) {
	e.t.Helper()
	e.n++
	s.T = e.t
	id := fmt.Sprintf(`"alive-%d"`, e.n)
	equal(e.t, "the call afterwards", s.Ask(call(id, "echo", `{"text":"still here"}`)), textResult(id, "still here"))
}

// A session over HTTP+SSE refuses what is no message as any other endpoint does, in the
// response to the POST; what is one is answered on the stream.
func TestBadMessagesOverSSE(t *testing.T) {
	e := newBadEnv(t)
	s := e.unchecked().OpenSSE("/sse")
	defer s.Stream.Close()
	s.Handshake("2025-11-25", `{}`)
	rows := badMessages()
	for i := range rows {
		row := &rows[i]
		body, header, onStream := row.body, row.header, ""
		if row.status == 200 {
			row.status, onStream, row.want = 202, row.want, ""
		}
		row.do = func(e *badEnv) *testkit.Answer {
			a := s.Post(body, header...)
			if onStream != "" {
				m, _ := s.Next()
				equal(e.t, "on the stream", m, onStream)
			}
			e.aliveOn(s)
			return a
		}
	}
	runBadRows(t, e, rows)
}

func TestBadRequestsOverSSE(t *testing.T) {
	e := newBadEnv(t)
	s := e.unchecked().OpenSSE("/sse")
	defer s.Stream.Close()
	s.Handshake("2024-11-05", `{}`)
	fresh := e.unchecked().OpenSSE("/sse")
	defer fresh.Stream.Close()
	anns := as(e.unchecked(), "ann").OpenSSE("/sse")
	defer anns.Stream.Close()
	anns.Handshake("2024-11-05", `{}`)
	at := func(path string) *testkit.Client {
		c := e.unchecked()
		c.URL = strings.TrimSuffix(e.url, "/mcp") + path
		return c
	}
	_, query, _ := strings.Cut(s.Messages, "?")
	_, id, _ := strings.Cut(query, "=")
	ping := method("1", "ping", "")
	to := func(name, path, body string, status int, want string) badRow {
		return badRow{name: name, status: status, want: want, do: func(e *badEnv) *testkit.Answer {
			a := at(path).Post(body)
			e.aliveOn(s)
			return a
		}}
	}
	badQuery := fault("", invalid, "The query must hold one valid sessionId", "")
	get := func(name, path string, status int, want string, header ...string) badRow {
		return badRow{name: name, status: status, want: want, do: func(*badEnv) *testkit.Answer { return at(path).Do("GET", "", header...) }}
	}
	notAllowed := fault("", invalid, "Method not allowed", "")
	rows := []badRow{
		to("no session", "/messages", ping, 400, badQuery),
		to("an empty one", "/messages?sessionId=", ping, 400, badQuery),
		to("two", "/messages?"+query+"&"+query, ping, 400, badQuery),
		to("with a line break", "/messages?sessionId=a%0ab", ping, 400, badQuery),
		to("a broken query", "/messages?sessionId=%zz", ping, 400, badQuery),
		to("by another name", "/messages?session_id="+id, ping, 400, badQuery),
		to("an unknown one", "/messages?sessionId=x", ping, 404, fault("1", invalid, connectAnew, "")),
		to("a very long one", "/messages?sessionId="+strings.Repeat("a", 8000), ping, 404, fault("1", invalid, connectAnew, "")),
		to("one with a wildcard", "/messages?sessionId="+strings.Replace(id, ".", ".*", 1), ping, 404, fault("1", invalid, connectAnew, "")),
		to("of somebody else", "/messages?"+strings.SplitN(anns.Messages, "?", 2)[1], ping, 404, fault("1", invalid, connectAnew, "")),
		to("of another server", "/bare/messages?"+query, ping, 404, fault("1", invalid, connectAnew, "")),
		to("of Streamable HTTP", "/messages?sessionId="+e.c.Session, ping, 404, fault("1", invalid, connectAnew, "")),
		to("a notification to nobody", "/messages?sessionId=x", note("notifications/initialized", ""), 404, fault("", invalid, connectAnew, "")),
		to("an answer to nobody", "/messages?sessionId=x", `{"jsonrpc":"2.0","id":"x","result":{}}`, 404, fault(`"x"`, invalid, connectAnew, "")),
		to("a batch to nobody", "/messages?sessionId=x", batch(ping), 404, fault("", invalid, connectAnew, "")),
		to("no JSON to nobody", "/messages?sessionId=x", `{`, 400, fault("", badJSON, "unexpected end of the message", "")),
		to("POST to the stream", "/sse", ping, 405, notAllowed),
		get("GET of messages", "/messages?"+query, 405, notAllowed),
		get("a stream that is not accepted", "/sse", 406, fault("", invalid, "Accept must admit text/event-stream", ""), "Accept", "application/json"),
		get("another site's page", "/sse", 403, fault("", invalid, "Origin not allowed: --allow-origin and Options.AllowOrigins allow it", ""), "Origin", "https://evil.example.com"),
		get("not authenticated", "/sse", 401, fault("", invalid, "Unauthorized", ""), "X-User", "eve"),
	}
	for _, path := range []string{"/sse", "/messages?" + query} {
		for _, m := range []string{"DELETE", "PUT", "PATCH"} {
			rows = append(rows, badRow{name: m + " " + path[:4], status: 405, want: notAllowed, do: func(*badEnv) *testkit.Answer { return at(path).Do(m, "") }})
		}
	}
	in := func(name string, c *testkit.SSE, status int, want, body string, header ...string) {
		rows = append(rows, badRow{name: name, status: status, want: want, do: func(e *badEnv) *testkit.Answer {
			a := c.Post(body, header...)
			e.aliveOn(s)
			return a
		}})
	}
	in("text", s, 415, fault("", invalid, "Content-Type must be application/json in UTF-8", ""), ping, "Content-Type", "text/plain")
	in("compressed", s, 415, fault("", invalid, "Content-Encoding is not supported", ""), ping, "Content-Encoding", "gzip")
	in("another site's page posts", s, 403, fault("", invalid, "Origin not allowed: --allow-origin and Options.AllowOrigins allow it", ""), ping, "Origin", "https://evil.example.com")
	in("of another revision", s, 400, fault("1", invalid, "MCP-Protocol-Version is not the session's, 2024-11-05", ""), ping, "MCP-Protocol-Version", "2025-06-18")
	in("5 MB", s, 413, fault("", invalid, "Request body too large", ""), strings.Repeat(" ", 5<<20))
	in("a batch of 101", s, 400, fault("", invalid, "the batch has too many messages", ""), `[1`+strings.Repeat(",1", 100)+`]`)
	in("an empty batch", s, 400, fault("", invalid, "the batch is empty", ""), `[]`)
	in("a batch with initialize", s, 400, fault("", invalid, "initialize must not be part of a batch", ""), batch(ping, initialize("2", "")))
	in("a mixed batch", s, 400, fault("", invalid, "a batch holds either responses or requests and notifications", ""), batch(ping, `{"jsonrpc":"2.0","id":"x","result":{}}`))
	in("a batch with one id twice", s, 400, fault("", invalid, "batch, message 2: the id of another request of the batch", ""), batch(ping, ping))
	in("a batch with what is no message", s, 400, fault("", invalid, "batch, message 2: the id must be a string or an integer", ""), batch(ping, method("null", "ping", "")))
	in("a batch before initialize", fresh, 400, fault("", invalid, "initialize must not be part of a batch", ""), batch(ping))
	runBadRows(t, e, rows)

	// Bad input that is a message is answered on the stream.
	e.t, s.T, fresh.T = t, t, t
	for body, want := range map[string]string{
		method("1", "no/such", ""):                           fault("1", noMethod, "method not found: no/such", ""),
		call("1", "no such", `{}`):                           fault("1", badParam, "Unknown tool: no such", ""),
		call("1", "strict", `{"count":0}`):                   fault("1", badParam, "invalid arguments: at '/count': minimum: got 0, want 1", ""),
		method("1", "elicitation/create", "{}"):              fault("1", noMethod, "method not found: elicitation/create", ""),
		method("1", "tasks/list", ""):                        fault("1", noMethod, "method not found: tasks/list", ""),
		method("1", "resources/subscribe", "{}"):             fault("1", badParam, "uri must be an absolute URI", ""),
		initialize("1", ""):                                  fault("1", invalid, "the session is initialized already", ""),
		method("1", "tools/list", `{"cursor":"`+e.page+`"}`): "",
	} {
		if got := s.Ask(body); got != want && want != "" {
			t.Errorf("%s:\n got %s\nwant %s", body, got, want)
		}
	}
	for body, want := range map[string]string{
		initialize("1", ""):                   fault("1", badParam, needsInit, ""),
		initialize("2", `{}`):                 fault("2", badParam, needsInit, ""),
		method("3", "tools/list", ""):         fault("3", invalid, "initialize first", ""),
		call("4", "echo", `{"text":"early"}`): fault("4", invalid, "initialize first", ""),
		method("5", "ping", ""):               `{"jsonrpc":"2.0","id":5,"result":{}}`,
	} {
		equal(t, "before initialize: "+body, fresh.Ask(body), want)
	}
	// A cursor of a session of Streamable HTTP holds here as well: it is of the same principal and server.
	contains(t, "tools/list", s.Ask(method("1", "tools/list", `{"cursor":"`+e.page+`"}`)), `"tools":[`)
}

// What a client does to one session over HTTP+SSE, it does to that one alone.
func TestHostileSSE(t *testing.T) {
	testkit.Bubble(t, func(t *testing.T) {
		h := newHost(t, troupe.Options{StreamsPerPrincipal: 5}, nil)
		s := h.sse()
		s.Handshake("2024-11-05", `{}`)
		// It never reads, and has everything sent that needs no call.
		deaf := h.sse()
		big := `"` + strings.Repeat("x", 300<<10) + `"`
		for range 10 {
			for _, body := range []string{method(big, "ping", ""), method(big, "tools/list", ""), initialize(big, "")} {
				if a := deaf.Post(body); a.StatusCode != 202 && a.StatusCode != 404 {
					t.Fatalf("%s %s", a.Status, a.Body)
				}
			}
		}
		if a := deaf.Post(method("1", "ping", "")); a.StatusCode != 404 {
			t.Errorf("a client that does not read: %s, want its session ended", a.Status)
		}
		// Connections that never initialize are bounded as all are, and end with their clients.
		var idle []*testkit.SSE
		for range 4 {
			idle = append(idle, h.sse())
		}
		c := h.unchecked()
		c.URL = strings.TrimSuffix(h.url, "/mcp") + "/sse"
		if a := c.Do("GET", "", "Accept", "text/event-stream"); a.StatusCode != 429 || a.Header.Get("Retry-After") != "1" {
			t.Errorf("one connection too many: %s", a.Status)
		}
		for _, i := range idle {
			i.Stream.Close()
		}
		time.Sleep(20 * time.Second) // in which each of them has had a comment
		equal(t, "afterwards", s.Ask(call("1", "echo", `{"text":"x"}`)), textResult("1", "x"))
		h.sse().Handshake("2024-11-05", `{}`)
		// Answers and cancels of others' questions and calls.
		question := s.Ask(call("2", "pingback", `{}`))
		other := h.sse()
		other.Handshake("2024-11-05", `{}`)
		other.Post(answerTo(question, `{}`))
		other.Post(cancel("2"))
		other.Post(note("notifications/cancelled", `{"requestId":`+parsedID(t, question)+`}`))
		synctest.Wait()
		equal(t, "the question is answered by who was asked", s.Ask(answerTo(question, `{}`)), textResult("2", "pong"))
	})
}

func parsedID(t *testing.T, message string) string { return string(parseAsked(t, message).ID) }
