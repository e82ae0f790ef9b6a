package client

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"net/http"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/troupe-run/troupe/mcp"
)

// TestComesAgain: what was not carried out is sent again, for as long as patience lasts, and nothing else.
func TestComesAgain(t *testing.T) {
	t.Parallel()
	lost := func(http.ResponseWriter, message) { breakOff() }
	for name, tt := range map[string]struct {
		refuse   func(w http.ResponseWriter, m message) // the first calls
		times    int
		patience time.Duration
		calls    int
		took     time.Duration // at least, and at most a second more
		complain string
	}{
		"Retry-After": {refuse: func(w http.ResponseWriter, m message) {
			w.Header().Set("Retry-After", "5")
			respond(w, 503, m, `"error":{"code":-32603,"message":"draining"}`)
		}, times: 2, calls: 3, took: 10 * time.Second},
		"a page with Retry-After": {refuse: func(w http.ResponseWriter, m message) {
			w.Header().Set("Retry-After", "5")
			http.Error(w, "restarting", http.StatusServiceUnavailable)
		}, times: 1, calls: 2, took: 5 * time.Second},
		"retryAfterMs": {refuse: func(w http.ResponseWriter, m message) {
			respond(w, 200, m, `"error":{"code":-32603,"message":"busy","data":{"retryAfterMs":1500}}`)
		}, times: 1, calls: 2, took: 1500 * time.Millisecond},
		"retryAfterMs in a stream": {refuse: func(w http.ResponseWriter, m message) {
			writeEvents(w, event("1", m, `"error":{"code":-32603,"message":"draining","data":{"retryAfterMs":2000}}`))
		}, times: 1, calls: 2, took: 2 * time.Second},
		"too many": {refuse: func(w http.ResponseWriter, m message) {
			w.Header().Set("Retry-After", "1")
			http.Error(w, "slowly", http.StatusTooManyRequests)
		}, times: 3, calls: 4, took: 3 * time.Second},
		"too many, for ever": {refuse: func(w http.ResponseWriter, m message) { http.Error(w, "go away", http.StatusTooManyRequests) }, times: 1, calls: 1, complain: "429 Too Many Requests"},
		"too long": {refuse: func(w http.ResponseWriter, m message) {
			w.Header().Set("Retry-After", "120")
			http.Error(w, "", http.StatusServiceUnavailable)
		}, times: 1, calls: 1, complain: "it may come again in 2m0s, which is too long to wait"},
		"never": {refuse: func(w http.ResponseWriter, m message) { http.Error(w, "", http.StatusServiceUnavailable) }, times: 1000, patience: 10 * time.Second, calls: 9, took: 9 * time.Second, complain: "gave up after 10s"},
		"at once, without patience": {refuse: func(w http.ResponseWriter, m message) {
			w.Header().Set("Retry-After", "1")
			http.Error(w, "", http.StatusServiceUnavailable)
		}, times: 1, patience: -1, calls: 1, complain: "503 Service Unavailable"},
		"a gateway":        {refuse: func(w http.ResponseWriter, m message) { http.Error(w, "", http.StatusBadGateway) }, times: 1, calls: 1, complain: "502 Bad Gateway"},
		"lost":             {refuse: lost, times: 1, calls: 1, complain: "the connection ended before the answer: whether the call took effect is unknown (the server closed it)"},
		"an error":         {refuse: func(w http.ResponseWriter, m message) { respond(w, 200, m, `"error":{"code":-32010,"message":"lost"}`) }, times: 1, calls: 1, complain: "lost (-32010)"},
		"lost in a stream": {refuse: func(w http.ResponseWriter, m message) { writeEvents(w, ": hello\n\n"); breakOff() }, times: 1, calls: 1, complain: ErrLost.Error()},
		"lost in a stream with ids, which this revision has not": {refuse: func(w http.ResponseWriter, m message) { writeEvents(w, "id: a\n\n"); breakOff() }, times: 1, calls: 1, complain: "unknown (the server closed it)"},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			synctest.Test(t, func(t *testing.T) {
				refused := 0
				s := &script{handle: modern(func(w http.ResponseWriter, _ *http.Request, m message) {
					if refused++; refused <= tt.times {
						tt.refuse(w, m)
						return
					}
					respond(w, 200, m, text("Hello"))
				})}
				o, _ := serve(t, s)
				if tt.patience != 0 {
					o.Patience = tt.patience
				}
				began := time.Now()
				got, err := call(t.Context(), o)
				if tt.complain == "" && (err != nil || got != "Hello") || tt.complain != "" && (err == nil || !strings.Contains(err.Error(), tt.complain)) {
					t.Errorf("got %q, %v, want %q", got, err, tt.complain)
				}
				if n := s.count(mcp.MethodToolsCall); n != tt.calls {
					t.Errorf("it was called %d times, want %d", n, tt.calls)
				}
				if took := time.Since(began); took < tt.took || took > tt.took+time.Second {
					t.Errorf("it took %v, want %v", took, tt.took)
				}
			})
		})
	}
}

// TestReadsAreRepeated: a request that only reads is sent again after a loss, too.
func TestReadsAreRepeated(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		faults := []func(http.ResponseWriter){
			func(http.ResponseWriter) { breakOff() },
			func(w http.ResponseWriter) { http.Error(w, "", http.StatusBadGateway) },
			func(w http.ResponseWriter) { writeEvents(w, ":\n\n"); breakOff() },
		}
		s := &script{handle: modern(func(w http.ResponseWriter, _ *http.Request, m message) {
			if len(faults) > 0 {
				next := faults[0]
				faults = faults[1:]
				next(w)
				return
			}
			if page := string(m.Params); strings.Contains(page, `"cursor":"2"`) {
				respond(w, 200, m, `"result":{"tools":[{"name":"b"}]}`)
				return
			}
			respond(w, 200, m, `"result":{"tools":[{"name":"a","description":"A."}],"nextCursor":"2"}`)
		})}
		o, said := serve(t, s)
		c, err := Connect(t.Context(), o)
		if err != nil {
			t.Fatal(err)
		}
		all, err := c.Tools(t.Context())
		if err != nil || len(all) != 2 || all[0].Name != "a" || all[1].Name != "b" || string(all[1].Raw) != `{"name":"b"}` {
			t.Errorf("the tools are %v, %v", all, err)
		}
		if n := s.count(mcp.MethodToolsList); n != 5 {
			t.Errorf("asked %d times, want 5", n)
		}
		if len(*said) == 0 || (*said)[len(*said)-1] != "the server answers again" {
			t.Errorf("it said %q", *said)
		}
	})
}

// TestServerIsAway: connections that are refused are tried again, from the first on, and a person hears of it.
func TestServerIsAway(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		s := &script{handle: modern(func(w http.ResponseWriter, _ *http.Request, m message) { respond(w, 200, m, text("Hello")) })}
		o, said := serve(t, s)
		s.refuse(true)
		time.AfterFunc(7*time.Second, func() { s.refuse(false) })
		if got, err := call(t.Context(), o); err != nil || got != "Hello" {
			t.Errorf("got %q, %v", got, err)
		}
		want := []string{"the server cannot be reached (127.0.0.1:80: connection refused); trying again for 30s", "the server answers again"}
		if fmt.Sprint(*said) != fmt.Sprint(want) {
			t.Errorf("it said %q, want %q", *said, want)
		}
	})
}

// TestStreamIsResumed: a call of a session is sent once, and its stream is read to the answer over as many connections as that takes.
func TestStreamIsResumed(t *testing.T) {
	t.Parallel()
	for name, tt := range map[string]struct {
		lose     func(s *script, w http.ResponseWriter, m message) // the first connection
		again    func(s *script, w http.ResponseWriter, n int)     // the n-th GET; nil: the answer
		came     string
		complain string
	}{
		"broken": {
			lose: func(_ *script, w http.ResponseWriter, m message) {
				writeEvents(w, "id: a\nretry: 3000\ndata:\n\n")
				breakOff()
			},
			came: "tools/call, GET a",
		},
		"closed, to poll": {
			lose: func(_ *script, w http.ResponseWriter, m message) { writeEvents(w, "id: a\nretry: 1000\n\n") },
			again: func(_ *script, w http.ResponseWriter, n int) {
				if n < 3 {
					writeEvents(w, fmt.Sprintf("id: a%d\n\n", n))
				}
			},
			came: "tools/call, GET a, GET a1, GET a2",
		},
		"killed, and started again": {
			lose: func(s *script, w http.ResponseWriter, m message) {
				writeEvents(w, "id: a\nretry: 4000\n\n")
				s.refuse(true)
				time.AfterFunc(20*time.Second, func() { s.refuse(false) })
				breakOff()
			},
			came: "tools/call, GET a",
		},
		"asked to wait": {
			lose: func(_ *script, w http.ResponseWriter, m message) { writeEvents(w, "id: a\n\n"); breakOff() },
			again: func(_ *script, w http.ResponseWriter, n int) {
				if n == 1 {
					w.Header().Set("Retry-After", "3")
					http.Error(w, "", http.StatusServiceUnavailable)
				}
			},
			came: "tools/call, GET a, GET a",
		},
		"resumed before the server sees that it broke": {
			lose: func(_ *script, w http.ResponseWriter, m message) { writeEvents(w, "id: a\n\n"); breakOff() },
			again: func(_ *script, w http.ResponseWriter, n int) {
				if n == 1 {
					http.Error(w, "stream ID conflicts with ongoing stream", http.StatusConflict)
				}
			},
			came: "tools/call, GET a, GET a",
		},
		"the same, said in JSON": {
			lose: func(_ *script, w http.ResponseWriter, m message) { writeEvents(w, "id: a\n\n"); breakOff() },
			again: func(_ *script, w http.ResponseWriter, n int) {
				if n == 1 {
					w.Header().Set("Content-Type", "application/json")
					w.WriteHeader(http.StatusConflict)
					_, _ = w.Write([]byte(`{"jsonrpc":"2.0","error":{"code":-32000,"message":"Conflict: only one stream"},"id":null}`))
				}
			},
			came: "tools/call, GET a, GET a",
		},
		"forgotten": {
			lose:     func(_ *script, w http.ResponseWriter, m message) { writeEvents(w, "id: a\n\n"); breakOff() },
			again:    func(_ *script, w http.ResponseWriter, _ int) { http.Error(w, "no session", 404) },
			came:     "tools/call, GET a",
			complain: "its stream cannot be resumed: no answer of MCP: 404 Not Found",
		},
		"without ids": {
			lose:     func(_ *script, w http.ResponseWriter, m message) { writeEvents(w, ":\n\n"); breakOff() },
			came:     "tools/call",
			complain: ErrLost.Error(),
		},
		"gone": {
			lose: func(s *script, w http.ResponseWriter, m message) {
				writeEvents(w, "id: a\n\n")
				s.refuse(true)
				breakOff()
			},
			came:     "tools/call",
			complain: ErrLost.Error() + ": the server cannot be reached (127.0.0.1:80: connection refused): gave up after 30s",
		},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			synctest.Test(t, func(t *testing.T) {
				var called message
				resumed := 0
				s := new(script)
				s.handle = sitting(func(w http.ResponseWriter, r *http.Request, m message) {
					if m.Method == mcp.MethodToolsCall {
						called = m
						tt.lose(s, w, m)
						return
					}
					if resumed++; tt.again != nil {
						if tt.again(s, w, resumed); w.Header().Get("Content-Type") != "" {
							return
						}
					}
					writeEvents(w, event("z", called, text("Hello")))
				})
				o, _ := serve(t, s)
				got, err := call(t.Context(), o)
				if tt.complain == "" && (err != nil || got != "Hello") || tt.complain != "" && (!errors.Is(err, ErrLost) || !strings.Contains(err.Error(), tt.complain)) {
					t.Errorf("got %q, %v, want %q", got, err, tt.complain)
				}
				_, came, _ := strings.Cut(s.came(), "notifications/initialized, ")
				if came = strings.TrimSuffix(came, ", DELETE"); came != tt.came {
					t.Errorf("the server got %s, want %s", came, tt.came)
				}
			})
		})
	}
}

// TestResumeHeedsRetry: the client comes back after the time that the server names, and not before.
func TestResumeHeedsRetry(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		var called message
		var left time.Time
		s := &script{handle: sitting(func(w http.ResponseWriter, r *http.Request, m message) {
			if m.Method == mcp.MethodToolsCall {
				called, left = m, time.Now()
				writeEvents(w, "id: a\nretry: 3000\n\n")
				return
			}
			if away := time.Since(left); away != 3*time.Second {
				t.Errorf("the client came back after %v", away)
			}
			writeEvents(w, event("z", called, text("Hello")))
		})}
		o, _ := serve(t, s)
		if got, err := call(t.Context(), o); err != nil || got != "Hello" {
			t.Errorf("got %q, %v", got, err)
		}
	})
}

// TestQuestionsOfAStream: what a server asks on the stream of a call is answered, or refused, and progress is told.
func TestQuestionsOfAStream(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		s := &script{handle: sitting(func(w http.ResponseWriter, _ *http.Request, m message) {
			writeEvents(w, `data: {"jsonrpc":"2.0","id":"p","method":"ping"}`+"\n\n"+
				`data: {"jsonrpc":"2.0","id":"e","method":"elicitation/create","params":{"message":"Who?"}}`+"\n\n"+
				`data: {"jsonrpc":"2.0","id":"r","method":"roots/list"}`+"\n\n"+
				`data: {"jsonrpc":"2.0","method":"notifications/progress","params":{"progress":1}}`+"\n\n"+event("z", m, text("Hello")))
		})}
		o, _ := serve(t, s)
		var told []string
		o.Notify = func(method string, params json.RawMessage) { told = append(told, method+string(params)) }
		o.Answer = func(method string, params json.RawMessage) mcp.ElicitResult {
			told = append(told, method+string(params))
			return mcp.ElicitResult{Action: mcp.ElicitDecline}
		}
		if got, err := call(t.Context(), o); err != nil || got != "Hello" {
			t.Errorf("got %q, %v", got, err)
		}
		if want := `[elicitation/create{"message":"Who?"} notifications/progress{"progress":1}]`; fmt.Sprint(told) != want {
			t.Errorf("told %v, want %v", told, want)
		}
		for _, want := range []string{`answer {"jsonrpc":"2.0","id":"p","result":{}}`, `answer {"jsonrpc":"2.0","id":"e","result":{"action":"decline"}}`, `answer {"jsonrpc":"2.0","id":"r","error":{"code":-32601,"message":"this client answers no roots/list"}}`} {
			if s.count(want) != 1 {
				t.Errorf("the server did not get %s once, but %s", want, s.came())
			}
		}
	})
}

// TestTaskIsFollowed: a call that becomes a task ends with the task's result, and the user hears of both.
func TestTaskIsFollowed(t *testing.T) {
	t.Parallel()
	asking := `"status":"input_required","inputRequests":{"q":{"method":"elicitation/create","params":{"message":"Who?"}}}`
	for name, tt := range map[string]struct {
		states   []string // of the task, as tasks/get tells them
		lose     bool     // the first of these
		came     string
		said     string
		complain string
	}{
		"done": {
			states: []string{`"status":"working","statusMessage":"1 of 2"`, `"status":"working","statusMessage":"1 of 2"`, `"status":"completed",` + text("Hello")},
			came:   "tools/call, tasks/get, tasks/get, tasks/get",
			said:   "[the call goes on as task t1 1 of 2]",
		},
		"its server is killed": {
			states: []string{`"status":"completed",` + text("Hello")}, lose: true,
			came: "tools/call, tasks/get, tasks/get",
			said: "[the call goes on as task t1 the connection broke (the server closed it); trying again for 30s the server answers again]",
		},
		"asks": { // it shows the question once more before it has taken the answer
			states: []string{asking, asking, `"status":"completed",` + text("Hello")},
			came:   "tools/call, tasks/get, tasks/update, tasks/get, tasks/get",
			said:   "[the call goes on as task t1]",
		},
		"asks for what nobody has": {
			states:   []string{`"status":"input_required","inputRequests":{"q":{"method":"roots/list"}}`},
			came:     "tools/call, tasks/get, tasks/cancel",
			said:     "[the call goes on as task t1]",
			complain: `the server asks for "roots/list", which this client does not answer`,
		},
		"failed": {
			states:   []string{`"status":"failed","error":{"code":-32010,"message":"lost"}`},
			came:     "tools/call, tasks/get",
			said:     "[the call goes on as task t1]",
			complain: "lost (-32010)",
		},
		"failed without a word": {
			states:   []string{`"status":"failed"`},
			came:     "tools/call, tasks/get",
			said:     "[the call goes on as task t1]",
			complain: "the task failed: the server does not say why",
		},
		"cancelled": {
			states:   []string{`"status":"cancelled"`},
			came:     "tools/call, tasks/get",
			said:     "[the call goes on as task t1]",
			complain: "the task was cancelled",
		},
		"given up": { // after 30 s
			states:   []string{`"status":"working","pollIntervalMs":40000`},
			came:     "tools/call, tasks/get, tasks/cancel",
			said:     "[the call goes on as task t1]",
			complain: "it takes too long",
		},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			synctest.Test(t, func(t *testing.T) {
				lose := tt.lose
				states := tt.states
				s := &script{handle: modern(func(w http.ResponseWriter, r *http.Request, m message) {
					if m.Method != mcp.MethodToolsCall && r.Header.Get("Mcp-Name") != "t1" {
						t.Errorf("%s is about %q", m.Method, r.Header.Get("Mcp-Name"))
					}
					switch m.Method {
					case mcp.MethodToolsCall:
						if !strings.Contains(string(m.Params), `"io.modelcontextprotocol/tasks":{}`) {
							t.Errorf("the client does not declare tasks: %s", m.Params)
						}
						respond(w, 200, m, `"result":{"resultType":"task","taskId":"t1","status":"working","pollIntervalMs":500}`)
					case mcp.MethodTasksGet:
						if lose {
							lose = false
							breakOff()
						}
						respond(w, 200, m, `"result":{"taskId":"t1",`+states[0]+`}`)
						states = states[1:]
					default:
						respond(w, 200, m, `"result":{"resultType":"complete"}`)
					}
				})}
				o, said := serve(t, s)
				o.Answer = func(string, json.RawMessage) mcp.ElicitResult { return mcp.ElicitResult{Action: mcp.ElicitAccept} }
				ctx, cancel := context.WithTimeoutCause(t.Context(), 30*time.Second, errors.New("it takes too long"))
				defer cancel()
				got, err := call(ctx, o)
				if tt.complain == "" && (err != nil || got != "Hello") || tt.complain != "" && (err == nil || !strings.Contains(err.Error(), tt.complain)) {
					t.Errorf("got %q, %v, want %q", got, err, tt.complain)
				}
				if _, came, _ := strings.Cut(s.came(), ", "); came != tt.came {
					t.Errorf("the server got %s, want %s", came, tt.came)
				}
				if fmt.Sprint(*said) != tt.said {
					t.Errorf("it said %q, want %s", *said, tt.said)
				}
			})
		})
	}
}

// TestCallIsCancelled: a call of a session whose user gives up is cancelled by its id.
func TestCallIsCancelled(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		var called, cancelled message
		handle := sitting(func(w http.ResponseWriter, r *http.Request, m message) {
			called = m
			<-r.Context().Done()
		})
		s := &script{handle: func(w http.ResponseWriter, r *http.Request, m message) {
			if m.Method == mcp.NotifyCancelled {
				cancelled = m
			}
			handle(w, r, m)
		}}
		o, _ := serve(t, s)
		ctx, cancel := context.WithTimeoutCause(t.Context(), time.Second, errors.New("enough"))
		defer cancel()
		if _, err := call(ctx, o); err == nil || err.Error() != "enough" {
			t.Errorf("it fails with %v", err)
		}
		if want := `{"requestId":` + string(called.ID) + `}`; string(cancelled.Params) != want {
			t.Errorf("cancelled %s, want %s", cancelled.Params, want)
		}
	})
}

// TestArgumentsInHeaders: the arguments that a server wants in headers go there once it has said so.
func TestArgumentsInHeaders(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		s := &script{handle: modern(func(w http.ResponseWriter, r *http.Request, m message) {
			switch {
			case m.Method == mcp.MethodToolsList:
				respond(w, 200, m, `"result":{"tools":[{"name":"greet","inputSchema":{"properties":{"name":{"type":"string","x-mcp-header":"Who"}}}}]}`)
			case r.Header.Get("Mcp-Param-Who") != "Ada":
				respond(w, 400, m, `"error":{"code":-32020,"message":"headers"}`)
			default:
				respond(w, 200, m, text("Hello"))
			}
		})}
		o, _ := serve(t, s)
		if got, err := call(t.Context(), o); err != nil || got != "Hello" {
			t.Errorf("got %q, %v", got, err)
		}
		if want := "server/discover, tools/call, tools/list, tools/call"; s.came() != want {
			t.Errorf("the server got %s, want %s", s.came(), want)
		}
	})
}

func TestParamHeaders(t *testing.T) {
	t.Parallel()
	schema := `{"properties":{"a":{"x-mcp-header":"A"},"b":{"properties":{"c":{"x-mcp-header":"C"}}},"bad":{"x-mcp-header":"X\r\nY"},"list":{"items":{"x-mcp-header":"L"}}}}`
	for arguments, want := range map[string]string{
		`{}`:                                    "map[]",
		`{"a":"Ada","b":{"c":5}}`:               "map[Mcp-Param-A:[Ada] Mcp-Param-C:[5]]",
		`{"a":true,"b":7,"bad":"x","list":[1]}`: "map[Mcp-Param-A:[true]]",
		`{"a":null,"b":{"c":{}}}`:               "map[]",
		`{"a":" Åda"}`:                          "map[Mcp-Param-A:[=?base64?IMOFZGE=?=]]",
		`7`:                                     "map[]",
	} {
		if got := fmt.Sprint(paramHeaders(json.RawMessage(schema), json.RawMessage(arguments))); got != want {
			t.Errorf("%s: got %s, want %s", arguments, got, want)
		}
	}
}

// TestHeaderValue has the examples of the specification (streamable HTTP, "Value Encoding"), and what could break a request.
func TestHeaderValue(t *testing.T) {
	t.Parallel()
	for text, want := range map[string]string{
		"us-west1": "us-west1", "": "", "a\tb": "a\tb",
		"Hello, 世界":             "=?base64?SGVsbG8sIOS4lueVjA==?=",
		" padded ":              "=?base64?IHBhZGRlZCA=?=",
		"line1\nline2":          "=?base64?bGluZTEKbGluZTI=?=",
		"=?base64?literal?=":    "=?base64?PT9iYXNlNjQ/bGl0ZXJhbD89?=",
		"a\r\nAuthorization: b": "=?base64?YQ0KQXV0aG9yaXphdGlvbjogYg==?=",
	} {
		if got := headerValue(text); got != want {
			t.Errorf("%q is written as %q, want %q", text, got, want)
		}
	}
}

// FuzzParse: any bytes are messages or an error, and a message is something.
func FuzzParse(f *testing.F) {
	for _, seed := range []string{`{"id":1,"result":{}}`, `[{"method":"ping","id":1},{"id":null,"error":{"code":1}}]`, `[]`, `{`, `null`, `{"id":1,"result":null}`, `{"ID":1,"Result":7}`} {
		f.Add([]byte(seed))
	}
	f.Fuzz(func(t *testing.T, data []byte) {
		all, err := parseMessages(data)
		if err != nil {
			return
		}
		for _, m := range all {
			if m.isAnswerTo("1") {
				if result, err := m.resultOrError(); result == nil && err == nil {
					t.Errorf("%s has neither a result nor an error", data)
				}
			}
			m.isAnswerTo("")
		}
	})
}
