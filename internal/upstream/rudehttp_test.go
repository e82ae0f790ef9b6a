package upstream

import (
	"errors"
	"fmt"
	"io"
	"net/http"
	"strings"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/troupe-run/troupe/internal/bubble"
	"github.com/troupe-run/troupe/mcp"
)

// answerEvent is a stream with the answer to m.
func answerEvent(id string, m message) string { return event(id, m.result(done)) }

// rudeHTTP are what backends over Streamable HTTP do with a call.
var rudeHTTP = []struct {
	name string
	only Era
	call func(w http.ResponseWriter, r *http.Request, m message)

	why    Reason
	code   int
	unsent bool // the outcome of a Failure
	counts map[OddityKind]uint64
	events int // of the request and the owner
	ended  bool
	check  func(t *testing.T, s *server, f *Failure)
}{
	{name: "answers in JSON", call: func(w http.ResponseWriter, _ *http.Request, m message) { respond(w, 200, m.result(done)) }},
	{name: "answers in a stream", call: func(w http.ResponseWriter, _ *http.Request, m message) { stream(w, answerEvent("", m)) }},
	{name: "never answers", only: EraLegacy, call: func(_ http.ResponseWriter, r *http.Request, m message) {
		if r.Method == http.MethodPost {
			<-r.Context().Done()
		}
	}, why: ReasonCancelled, code: mcp.CodeCallLost, check: func(t *testing.T, s *server, _ *Failure) {
		if s.count(mcp.NotifyCancelled) != 1 {
			t.Errorf("it got %s", s.came())
		}
	}},
	{name: "never answers", only: EraModern, call: func(_ http.ResponseWriter, r *http.Request, m message) { <-r.Context().Done() },
		why: ReasonCancelled, code: mcp.CodeCallLost, check: func(t *testing.T, s *server, _ *Failure) {
			if s.count(mcp.NotifyCancelled) != 0 {
				t.Errorf("it got %s", s.came())
			}
		}},
	{name: "never answers in a stream", call: func(w http.ResponseWriter, r *http.Request, m message) {
		stream(w, ":\n\n")
		<-r.Context().Done()
	}, why: ReasonCancelled, code: mcp.CodeCallLost},
	{name: "answers with HTML", call: func(w http.ResponseWriter, _ *http.Request, _ message) {
		w.Header().Set("Content-Type", "text/html")
		_, _ = io.WriteString(w, "<html>"+strings.Repeat("x", 1<<20))
	}, why: ReasonMalformed, code: mcp.CodeInternalError, check: func(t *testing.T, _ *server, f *Failure) {
		if !strings.HasPrefix(f.Excerpt, "<html>") || len(f.Excerpt) > mostExcerpt+10 {
			t.Errorf("the excerpt is %q", f.Excerpt)
		}
	}},
	{name: "answers without a type", call: func(w http.ResponseWriter, _ *http.Request, m message) {
		w.Header()["Content-Type"] = nil
		_, _ = io.WriteString(w, m.result(done))
	}},
	{name: "answers with nothing", call: func(w http.ResponseWriter, _ *http.Request, _ message) { respond(w, 200, "") }, why: ReasonMalformed, code: mcp.CodeInternalError},
	{name: "accepts a call", call: func(w http.ResponseWriter, _ *http.Request, _ message) { w.WriteHeader(202) }, why: ReasonMalformed, code: mcp.CodeInternalError},
	{name: "answers with no JSON", call: func(w http.ResponseWriter, _ *http.Request, _ message) { respond(w, 200, "{no") },
		why: ReasonMalformed, code: mcp.CodeInternalError, counts: map[OddityKind]uint64{OddText: 1}},
	{name: "answers with bad UTF-8", call: func(w http.ResponseWriter, _ *http.Request, m message) { respond(w, 200, m.result("{\"a\":\"\xff\"}")) },
		why: ReasonMalformed, code: mcp.CodeInternalError, counts: map[OddityKind]uint64{OddText: 1}},
	{name: "begins with a BOM", call: func(w http.ResponseWriter, _ *http.Request, m message) {
		respond(w, 200, "\xef\xbb\xbf\r\n"+m.result(done)+"\r\n")
	}},
	{name: "breaks off", call: func(w http.ResponseWriter, _ *http.Request, m message) {
		w.Header().Set("Content-Length", "4000")
		respond(w, 200, m.result(done))
		breakOff()
	}, why: ReasonEnded, code: mcp.CodeCallLost},
	{name: "breaks off before the answer", call: func(http.ResponseWriter, *http.Request, message) { breakOff() }, why: ReasonEnded, code: mcp.CodeCallLost},
	{name: "answers another request", call: func(w http.ResponseWriter, _ *http.Request, _ message) {
		respond(w, 200, `{"jsonrpc":"2.0","id":77,"result":{}}`)
	}, why: ReasonMalformed, code: mcp.CodeInternalError, counts: map[OddityKind]uint64{OddAnswer: 1}},
	{name: "answers in a batch", call: func(w http.ResponseWriter, _ *http.Request, m message) { respond(w, 200, "["+m.result(done)+"]") },
		counts: map[OddityKind]uint64{OddBatch: 1}},
	{name: "answers twice", call: func(w http.ResponseWriter, _ *http.Request, m message) {
		stream(w, answerEvent("", m), answerEvent("", m), event("", `{"jsonrpc":"2.0","id":"q","method":"roots/list"}`))
	}},
	{name: "answers with 100 MB", call: func(w http.ResponseWriter, _ *http.Request, _ message) {
		w.Header().Set("Content-Type", "application/json")
		chunk := []byte(strings.Repeat(" ", 1<<20))
		for range 100 {
			if _, err := w.Write(chunk); err != nil {
				return
			}
		}
	}, why: ReasonTooLarge, code: mcp.CodeInternalError},
	{name: "sends an event of 100 MB", call: func(w http.ResponseWriter, _ *http.Request, _ message) {
		stream(w, "id: 1\ndata: ")
		chunk := []byte(strings.Repeat("x", 1<<20))
		for range 100 {
			if _, err := w.Write(chunk); err != nil {
				return
			}
		}
	}, why: ReasonTooLarge, code: mcp.CodeInternalError},
	{name: "sends no JSON in a stream", call: func(w http.ResponseWriter, _ *http.Request, m message) {
		stream(w, event("", "{no"), "event: other\ndata: x\n\n", strings.Repeat(":\n", 10_000), "data: \n\n", answerEvent("", m))
	}, counts: map[OddityKind]uint64{OddText: 1}},
	{name: "begins its stream with a BOM", call: func(w http.ResponseWriter, _ *http.Request, m message) { stream(w, "\xef\xbb\xbf"+answerEvent("", m)) }},
	{name: "ends its stream", call: func(w http.ResponseWriter, _ *http.Request, _ message) { stream(w, ":\n\n") }, why: ReasonEnded, code: mcp.CodeCallLost},
	{name: "asks in its stream", only: EraLegacy, call: func(w http.ResponseWriter, _ *http.Request, m message) {
		stream(w, event("", `{"jsonrpc":"2.0","id":"q","method":"roots/list"}`), event("", `{"jsonrpc":"2.0","method":"notifications/message"}`), answerEvent("", m))
	}, events: 2},
	{name: "asks in the newer era", only: EraModern, call: func(w http.ResponseWriter, _ *http.Request, m message) {
		stream(w, event("", `{"jsonrpc":"2.0","id":"q","method":"roots/list"}`), answerEvent("", m))
	}, counts: map[OddityKind]uint64{OddQuestion: 1}},
	{name: "reports progress of another", call: func(w http.ResponseWriter, _ *http.Request, m message) {
		stream(w, event("", `{"jsonrpc":"2.0","method":"notifications/progress","params":{"progressToken":1,"progress":1}}`), answerEvent("", m))
	}, counts: map[OddityKind]uint64{OddProgress: 1}},
	{name: "refuses by an error", call: func(w http.ResponseWriter, _ *http.Request, m message) { respond(w, 400, m.failure(-32602, "no")) }, why: "error -32602"},
	{name: "breaks by an error", call: func(w http.ResponseWriter, _ *http.Request, m message) { respond(w, 500, m.failure(-32603, "no")) }, why: "error -32603"},
	{name: "refuses by an error without an id", call: func(w http.ResponseWriter, _ *http.Request, _ message) {
		respond(w, 400, `{"jsonrpc":"2.0","error":{"code":-32600,"message":"no"}}`)
	}, why: "error -32600"},
	{name: "wants credentials", call: func(w http.ResponseWriter, _ *http.Request, m message) {
		w.Header().Set("WWW-Authenticate", `Bearer resource_metadata="x"`)
		respond(w, 401, m.failure(-32001, "who?"))
	}, why: ReasonCredentials, code: mcp.CodeInternalError, unsent: true, check: func(t *testing.T, _ *server, f *Failure) {
		if f.Status != 401 {
			t.Errorf("the failure is %+v", f)
		}
	}},
	{name: "forbids", call: func(w http.ResponseWriter, _ *http.Request, _ message) { w.WriteHeader(403) }, why: ReasonCredentials, code: mcp.CodeInternalError, unsent: true},
	{name: "redirects", call: func(w http.ResponseWriter, r *http.Request, _ message) {
		http.Redirect(w, r, "http://other/", http.StatusTemporaryRedirect)
	},
		why: ReasonRedirected, code: mcp.CodeInternalError, unsent: true},
	{name: "is busy", call: func(w http.ResponseWriter, _ *http.Request, _ message) {
		w.Header().Set("Retry-After", "7")
		w.WriteHeader(503)
	}, why: ReasonBusy, code: mcp.CodeInternalError, unsent: true, check: func(t *testing.T, _ *server, f *Failure) {
		if f.After != 7*time.Second || string(f.Wire().Data) != `{"reason":"busy","ran":false,"retryAfterMs":7000}` {
			t.Errorf("the failure is %+v, %s", f, f.Wire().Data)
		}
	}},
	{name: "is busy until a date", call: func(w http.ResponseWriter, _ *http.Request, _ message) {
		w.Header().Set("Retry-After", time.Now().Add(90*time.Second).UTC().Format(http.TimeFormat))
		w.WriteHeader(429)
	}, why: ReasonBusy, code: mcp.CodeInternalError, unsent: true, check: func(t *testing.T, _ *server, f *Failure) {
		if f.After != 90*time.Second {
			t.Errorf("the failure is %+v", f)
		}
	}},
	{name: "is broken", call: func(w http.ResponseWriter, _ *http.Request, _ message) {
		w.Header().Set("Retry-After", "100000000")
		http.Error(w, "oops", http.StatusBadGateway)
	}, why: ReasonStatus, code: mcp.CodeCallLost, check: func(t *testing.T, _ *server, f *Failure) {
		if f.After != mostAfter || f.Excerpt != "oops" {
			t.Errorf("the failure is %+v", f)
		}
	}},
	{name: "refuses", call: func(w http.ResponseWriter, _ *http.Request, _ message) { http.Error(w, "no", 400) }, why: ReasonStatus, code: mcp.CodeInternalError, unsent: true},
	{name: "is elsewhere", only: EraModern, call: func(w http.ResponseWriter, _ *http.Request, _ message) { http.Error(w, "no", 404) },
		why: ReasonStatus, code: mcp.CodeInternalError, unsent: true},
	{name: "has forgotten the session", only: EraLegacy, call: func(w http.ResponseWriter, _ *http.Request, _ message) { http.Error(w, "Session not found", 404) },
		why: ReasonSessionGone, code: mcp.CodeInternalError, unsent: true, ended: true},
	{name: "says 400 of the session", only: EraLegacy, call: func(w http.ResponseWriter, _ *http.Request, _ message) {
		respond(w, 400, `{"jsonrpc":"2.0","error":{"code":-32000,"message":"Bad Request: Invalid session ID"},"id":null}`)
	}, why: ReasonSessionGone, code: mcp.CodeInternalError, unsent: true, ended: true},
	{name: "speaks of sessions in an error", only: EraLegacy, call: func(w http.ResponseWriter, _ *http.Request, m message) {
		respond(w, 400, m.failure(-32602, "no such session in my database"))
	}, why: "error -32602"},
}

func TestRudeHTTP(t *testing.T) {
	t.Parallel()
	for _, era := range []Era{EraLegacy, EraModern} {
		for _, tt := range rudeHTTP {
			if tt.only != EraUnknown && tt.only != era {
				continue
			}
			t.Run(fmt.Sprint(era, " ", tt.name), func(t *testing.T) {
				t.Parallel()
				bubble.Test(t, func(t *testing.T) {
					var r records
					o := r.options()
					s, c := openHTTP(t, o, politely(era, tt.call))
					answer, err := c.Do(minute(t), toolCall(Request{Progress: func([]byte) {}, Event: o.Event}))
					if text, ok := strings.CutPrefix(string(tt.why), "error "); ok {
						if err != nil || fmt.Sprint(answer.Err().Code) != text {
							t.Errorf("the call has %s and %v, want %s", answer.Error, err, tt.why)
						}
					} else {
						checkOutcome(t, answer, err, tt.why, tt.code)
					}
					f, _ := errors.AsType[*Failure](err)
					if f != nil && (f.Outcome == NotRun) != tt.unsent {
						t.Errorf("the outcome is %v: %v", f.Outcome, f)
					}
					synctest.Wait()
					wantCounts(t, c, tt.counts)
					if len(r.events) != tt.events {
						t.Errorf("the owner got %d events, want %d: %s", len(r.events), tt.events, shorten(fmt.Sprint(r.events)))
					}
					if tt.check != nil {
						tt.check(t, s, f)
					}
					if ended := len(r.endings()) > 0; ended != tt.ended {
						t.Errorf("the connection ended with %v", r.endings())
					}
					checkNext(t, c, tt.ended)
					if n := s.count(mcp.MethodToolsCall); n != 1 {
						t.Errorf("the call came %d times", n)
					}
				})
			})
		}
	}
}

// TestStreamsAreTakenUp breaks the response stream of a call, in several ways.
func TestStreamsAreTakenUp(t *testing.T) {
	t.Parallel()
	progress := func(m message) string {
		return fmt.Sprintf(`{"jsonrpc":"2.0","method":"notifications/progress","params":{"progressToken":%s,"progress":1.0}}`, m.ID)
	}
	for name, tt := range map[string]struct {
		post  func(w http.ResponseWriter, m message)
		get   func(w http.ResponseWriter, m message, n int) // the n-th
		why   Reason
		came  string
		waits time.Duration
	}{
		"ended in good order": {
			post: func(w http.ResponseWriter, m message) { stream(w, "id: a1\nretry: 3000\ndata:\n\n") },
			get:  func(w http.ResponseWriter, m message, _ int) { stream(w, answerEvent("a2", m)) },
			came: "tools/call, GET a1", waits: 3 * time.Second,
		},
		"broken": {
			post: func(w http.ResponseWriter, m message) {
				stream(w, event("a1", progress(m)))
				breakOff()
			},
			get:  func(w http.ResponseWriter, m message, _ int) { stream(w, answerEvent("a2", m)) },
			came: "tools/call, GET a1", waits: ShortestPause,
		},
		"broken twice, and seen too late": {
			post: func(w http.ResponseWriter, m message) { stream(w, event("a1", progress(m))) },
			get: func(w http.ResponseWriter, m message, n int) {
				switch n {
				case 1:
					w.WriteHeader(409)
				case 2:
					breakOff()
				case 3:
					stream(w, event("a2", progress(m)))
					breakOff()
				default:
					stream(w, answerEvent("a3", m))
				}
			},
			came: "tools/call, GET a1, GET a1, GET a1, GET a2", waits: (1 + 2 + 1) * ShortestPause, // net/http repeats a GET at once
		},
		"never again": {
			post: func(w http.ResponseWriter, m message) { stream(w, event("a1", progress(m))) },
			get:  func(w http.ResponseWriter, m message, _ int) { w.WriteHeader(503) },
			why:  ReasonBusy, came: "tools/call" + strings.Repeat(", GET a1", MostResumes),
		},
		"no streams": {
			post: func(w http.ResponseWriter, m message) { stream(w, event("a1", progress(m))) },
			get:  func(w http.ResponseWriter, m message, _ int) { w.WriteHeader(405) },
			why:  ReasonStatus, came: "tools/call, GET a1",
		},
		"the session is gone": {
			post: func(w http.ResponseWriter, m message) { stream(w, event("a1", progress(m))) },
			get:  func(w http.ResponseWriter, m message, _ int) { w.WriteHeader(404) },
			why:  ReasonSessionGone, came: "tools/call, GET a1",
		},
		"an id that is no header": {
			post: func(w http.ResponseWriter, m message) {
				stream(w, event(strings.Repeat("i", MostToken+1), progress(m)))
			},
			why: ReasonEnded, came: "tools/call",
		},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			bubble.Test(t, func(t *testing.T) {
				var call message
				n := 0
				s, c := openHTTP(t, Options{}, politely(EraLegacy, func(w http.ResponseWriter, r *http.Request, m message) {
					switch r.Method {
					case http.MethodPost:
						call = m
						tt.post(w, m)
					case http.MethodGet:
						n++
						tt.get(w, call, n)
					}
				}))
				began := time.Now()
				var passed []string
				answer, err := c.Do(minute(t), toolCall(Request{Progress: func([]byte) {}, Passed: func(e string) { passed = append(passed, e) }}))
				code := 0
				if tt.why != "" {
					code = mcp.CodeCallLost
				}
				checkOutcome(t, answer, err, tt.why, code)
				if _, came, _ := strings.Cut(s.came(), "notifications/initialized, "); came != tt.came {
					t.Errorf("it got %s", came)
				}
				if took := time.Since(began); tt.waits > 0 && took != tt.waits {
					t.Errorf("it took %v, want %v", took, tt.waits)
				}
				if tt.why == "" && len(passed) == 0 {
					t.Error("no event passed")
				}
			})
		})
	}
}

// TestModernStreamsAreNotTakenUp has event ids where they mean nothing.
func TestModernStreamsAreNotTakenUp(t *testing.T) {
	t.Parallel()
	bubble.Test(t, func(t *testing.T) {
		s, c := openHTTP(t, Options{}, politely(EraModern, func(w http.ResponseWriter, _ *http.Request, m message) {
			stream(w, event("a1", `{"jsonrpc":"2.0","method":"notifications/message"}`))
		}))
		answer, err := c.Do(minute(t), toolCall(Request{}))
		checkOutcome(t, answer, err, ReasonEnded, mcp.CodeCallLost)
		if s.came() != "server/discover, tools/call" {
			t.Errorf("it got %s", s.came())
		}
	})
}

// TestSilentStream has a connection that breaks without a word.
func TestSilentStream(t *testing.T) {
	t.Parallel()
	bubble.Test(t, func(t *testing.T) {
		var call message
		s, c := openHTTP(t, Options{}, politely(EraLegacy, func(w http.ResponseWriter, r *http.Request, m message) {
			if r.Method == http.MethodPost {
				call = m
				stream(w, event("a1", `{"jsonrpc":"2.0","method":"notifications/message"}`))
				<-r.Context().Done()
				return
			}
			stream(w, answerEvent("a2", call))
		}))
		answer, err := c.Do(t.Context(), toolCall(Request{}))
		checkOutcome(t, answer, err, "", 0)
		if s.count("GET a1") != 1 {
			t.Errorf("it got %s", s.came())
		}
	})
}

// TestBackendAway has connections refused: nothing was sent.
func TestBackendAway(t *testing.T) {
	t.Parallel()
	bubble.Test(t, func(t *testing.T) {
		s, c := openHTTP(t, Options{}, politely(EraModern, func(w http.ResponseWriter, _ *http.Request, m message) {
			w.Header().Set("Connection", "close")
			respond(w, 200, m.result(done))
		}))
		if _, err := c.Do(minute(t), toolCall(Request{})); err != nil {
			t.Fatal(err)
		}
		s.refuse(true)
		c.link.(*HTTP).client.CloseIdleConnections()
		answer, err := c.Do(minute(t), toolCall(Request{}))
		checkOutcome(t, answer, err, ReasonUnreachable, mcp.CodeInternalError)
		if !errors.Is(err, ErrUnsent) {
			t.Errorf("the call has %v", err)
		}
		s.refuse(false)
		checkNext(t, c, false)
	})
}

// TestStandaloneStream reads what a backend says by itself, over several connections, until the session is gone.
func TestStandaloneStream(t *testing.T) {
	t.Parallel()
	bubble.Test(t, func(t *testing.T) {
		var r records
		o := r.options()
		o.Standalone = true
		gone := false
		s, c := openHTTP(t, o, politely(EraLegacy, func(w http.ResponseWriter, q *http.Request, m message) {
			switch {
			case gone:
				w.WriteHeader(404)
			case q.Header.Get("Last-Event-Id") == "":
				stream(w, event("e1", `{"jsonrpc":"2.0","id":7,"method":"roots/list"}`))
			default:
				stream(w, event("e2", `{"jsonrpc":"2.0","method":"notifications/tools/list_changed"}`))
				gone = true
			}
		}))
		time.Sleep(10 * time.Second)
		synctest.Wait()
		q := r.first(mcp.MethodRootsList)
		if string(q.ID) != "7" || q.Request != 0 || r.count(mcp.NotifyToolsListChanged) != 1 {
			t.Errorf("the owner got %v", r.events)
		}
		if all := r.endings(); len(all) != 1 || all[0].Why != ReasonSessionGone {
			t.Errorf("the connection ended with %v", all)
		}
		if !strings.HasSuffix(s.came(), "GET, GET e1, GET e2") {
			t.Errorf("it got %s", s.came())
		}
		err := c.Answer(minute(t), q.ID, []byte(`{}`)) // the question may be open for another process
		if f, ok := errors.AsType[*Failure](err); !ok || f.Why != ReasonSessionGone || f.Outcome != NotRun {
			t.Errorf("an answer after the end has %v", err)
		}
	})
}

// TestCallsWaitForTheStandaloneStream opens a backend that is slow to begin its standalone stream, and one that does not begin it: what the first says
// there of the first call would be lost, if it had that before.
func TestCallsWaitForTheStandaloneStream(t *testing.T) {
	t.Parallel()
	for _, tt := range []struct{ begins, opened time.Duration }{
		{0, 0},
		{StandaloneSilence / 5, StandaloneSilence / 5},
		{time.Hour, StandaloneSilence},
	} {
		bubble.Test(t, func(t *testing.T) {
			var r records
			o := r.options()
			o.Standalone = true
			var begun atomic.Bool
			before := time.Now()
			_, c := openHTTP(t, o, politely(EraLegacy, func(w http.ResponseWriter, q *http.Request, m message) {
				if q.Method != http.MethodGet {
					respond(w, 200, m.result(`{"content":[]}`))
					return
				}
				if sleepFor(q.Context(), systemClock{}, tt.begins) != nil {
					return
				}
				begun.Store(true)
				stream(w)
				<-q.Context().Done()
			}))
			if opened := time.Since(before); opened != tt.opened || begun.Load() != (tt.begins == tt.opened) {
				t.Errorf("a stream that begins after %v: open after %v, want %v; it has begun: %v", tt.begins, opened, tt.opened, begun.Load())
			}
			if _, err := c.Do(minute(t), toolCall(Request{})); err != nil {
				t.Errorf("a stream that begins after %v: %v", tt.begins, err)
			}
		})
	}
}

// TestNoStandaloneStream is refused one, and goes on without.
func TestNoStandaloneStream(t *testing.T) {
	t.Parallel()
	bubble.Test(t, func(t *testing.T) {
		var r records
		o := r.options()
		o.Standalone = true
		s, c := openHTTP(t, o, politely(EraLegacy, func(w http.ResponseWriter, q *http.Request, m message) { w.WriteHeader(405) }))
		time.Sleep(time.Hour)
		if n := s.count("GET"); n != 1 || len(r.endings()) > 0 {
			t.Errorf("it got %s and ended with %v", s.came(), r.endings())
		}
		c.Close(t.Context())
		if s.count("DELETE") != 1 {
			t.Errorf("it got %s", s.came())
		}
		if head, _ := s.sent("DELETE"); head.Get("Mcp-Session-Id") != "s1" {
			t.Errorf("it got %v", head)
		}
	})
}
