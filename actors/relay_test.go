package actors

import (
	"bytes"
	"context"
	"fmt"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/troupe-run/troupe/actors/internal/relay"
	"github.com/troupe-run/troupe/codec"
	"github.com/troupe-run/troupe/internal/quota"
	"github.com/troupe-run/troupe/internal/refusal"
	"github.com/troupe-run/troupe/mcp"
	"github.com/troupe-run/troupe/test/sim"
)

// fellow is one node of several that answer for each other.
type fellow struct {
	*held
	box  *sim.Box
	runs atomic.Int64 // handlers that have begun
}

// several are nodes that share a store, and the office that carries their letters.
type several struct {
	t      *testing.T
	office *sim.Office
	mu     sync.Mutex // guards fate
	fate   func(kind string) sim.Fate
	all    []*fellow
}

// together runs f on nodes in virtual time, and checks that nothing is left of what they did for each other.
func together(t *testing.T, count int, f func(t *testing.T, s *several)) {
	t.Helper()
	synctest.Test(t, func(t *testing.T) {
		s := &several{t: t}
		s.office = sim.NewOffice(s.fateOf)
		store := newMemory()
		for i := range count {
			h := &held{t: t, mem: store, handler: &heldHandler{}}
			m := &fellow{held: h, box: s.office.Join(fmt.Sprint("n", i), "b")}
			h.Node = NewNode(Config{Name: fmt.Sprint("n", i), Boot: "b", Store: store, Keys: benchKeys{}, Mail: m.box})
			h.svc = NewService("s", mayAgain{benchHandler{h.handler}, func(name string) bool { return name == `"safe"` }}, Limits{})
			s.all = append(s.all, m)
		}
		f(t, s)
		pass(25 * time.Minute) // longer than a call stays parked, and than its outcome is kept after that
		for _, m := range s.all {
			if n := m.accounts.Bytes(); n != 0 || !m.statelessCalls.isEmpty() || m.mrtr.Len() > 0 {
				t.Errorf("node %s holds %d bytes, and %d calls are parked", m.name, n, m.mrtr.Len())
			}
			if near, far, coming := m.relays.proxies.Len(), m.relays.exchanges.Len(), m.relays.inbound.Len(); near+far+coming > 0 {
				t.Errorf("node %s is left with %d exchanges of its own, %d of others and %d on their way", m.name, near, far, coming)
			}
			if in, bytes := m.accounts.InFlight(), m.accounts.BytesOf(quota.Queues)+m.accounts.BytesOf(quota.Bodies); in > 0 || bytes > 0 {
				t.Errorf("node %s counts %d requests in flight, and %d bytes", m.name, in, bytes)
			}
			if n := m.talking.len(); n > 0 {
				t.Errorf("node %s keeps %d streams open", m.name, n)
			}
		}
		for _, m := range s.all {
			ctx, cancel := context.WithTimeout(context.Background(), 10*time.Second)
			if err := m.Close(ctx); err != nil {
				t.Errorf("close: %v", err)
			}
			cancel()
		}
		pass(time.Minute)
	})
}

func (s *several) fateOf(kind string) sim.Fate {
	s.mu.Lock()
	f := s.fate
	s.mu.Unlock()
	if f == nil {
		return sim.Fate{}
	}
	return f(kind)
}

// letters decides from now on what happens to letters; nil delivers all at once.
func (s *several) letters(f func(kind string) sim.Fate) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.fate = f
}

// pass lets time pass, and what happens until then.
func pass(d time.Duration) {
	time.Sleep(d)
	synctest.Wait()
}

// loses loses the letters of a kind.
func loses(kind string) func(string) sim.Fate {
	return func(k string) sim.Fate { return sim.Fate{Lost: k == kind} }
}

// asking makes the tools of all nodes run f.
func (s *several) asking(f func(ctx context.Context, c *Call) ([]byte, *mcp.Error)) {
	for _, m := range s.all {
		m.handler.f = func(ctx context.Context, c *Call) ([]byte, *mcp.Error) {
			m.runs.Add(1)
			return f(ctx, c)
		}
	}
}

// caller is a connection that its client may close.
type caller struct {
	heldConn
	ctx   context.Context
	close context.CancelFunc
}

func newCaller() *caller {
	c := &caller{}
	ctx, cancel := context.WithCancel(context.Background())
	c.ctx, c.close = ctx, func() { cancel(); c.Cut() }
	return c
}

func (c *caller) Context() context.Context { return c.ctx }
func (c *caller) WhenGone(f func()) (stop func() bool) {
	return context.AfterFunc(c.ctx, f)
}
func (c *caller) Reject(no *refusal.Refusal) {
	if no.After > 0 {
		c.name = no.After.String()
	}
	c.heldConn.Reject(no)
}

// calls posts a stateless call of a tool to the node, and returns once it waits for something.
func (m *fellow) calls(tool, more string) *caller {
	c := newCaller()
	m.callsOn(c, "anon", tool, more)
	return c
}

func (m *fellow) callsOn(c *caller, tenant, tool, more string) {
	m.sends(c, tenant, tool, more)
	synctest.Wait()
}

// sends is callsOn without the wait.
func (m *fellow) sends(c *caller, tenant, tool, more string) {
	body := []byte(strings.NewReplacer(`"name":"x"`, `"name":"`+tool+`"`, `"_meta":{`, `"_meta":{"progressToken":"`+m.name+`",`).Replace(toolCall("1", more)))
	var msg codec.Message
	if err := codec.Scan(body, &msg, codec.Limits{}); err != nil {
		m.t.Fatal(err)
	}
	go m.Post(m.svc, &Input{Tenant: tenant, Address: "192.0.2.1", Conn: c, Exchange: c, Stateless: true}, nil, &msg, body)
}

// isAnswer fails unless c has this result.
func isAnswer(t *testing.T, what string, c *caller, result string) {
	t.Helper()
	synctest.Wait()
	if status, body := c.answer(); status != 200 || !strings.Contains(body, `"result":`+result) {
		t.Errorf("%s: got %d %.300q, want the result %s", what, status, body, result)
	}
}

// isLater fails unless c was told to come back.
func isLater(t *testing.T, what string, c *caller) {
	t.Helper()
	synctest.Wait()
	if status, body := c.answer(); status != 503 || !strings.Contains(body, "retryAfterMs") || c.name == "" {
		t.Errorf("%s: got %d %.300q, to come back after %q, want 503", what, status, body, c.name)
	}
}

// asksAndTells asks once, and then sends progress.
func asksAndTells(ctx context.Context, c *Call) ([]byte, *mcp.Error) {
	answer := asks(ctx, c, "a")
	for i := range 3 {
		_ = c.Progress(ctx, float64(i+1), fmt.Appendf(nil, `{"progressToken":%s,"progress":%d}`, c.ProgressToken(), i+1))
		time.Sleep(20 * time.Second) // longer than any patience
	}
	return []byte(answer), nil
}

// TestForwardedStream checks what a call sends after another node has taken its retry: progress, under the new token, and its
// result; the nodes hear of each other while nothing comes.
func TestForwardedStream(t *testing.T) {
	together(t, 2, func(t *testing.T, s *several) {
		s.asking(asksAndTells)
		asked := s.all[0].calls("x", "")
		c := s.all[1].calls("x", answersTo(&asked.heldConn, `{"a":{}}`))
		if in := [2]int64{s.all[0].accounts.InFlight(), s.all[1].accounts.InFlight()}; in != [2]int64{1, 1} {
			t.Errorf("requests in flight: %d", in)
		}
		pass(time.Minute + time.Second)
		events := c.events()
		if len(events) != 4 || !strings.Contains(events[0], `"progressToken":"n1"`) || !strings.Contains(events[2], `"progress":3`) || !strings.Contains(events[3], `"result":{}`) || !c.over {
			t.Errorf("got %q, over: %v", events, c.over)
		}
	})
}

// TestLargeForwards has a request, messages and a response that do not fit one letter.
func TestLargeForwards(t *testing.T) {
	large := strings.Repeat("x", 1_500_000)
	for name, tells := range map[string]bool{"a response": false, "a stream": true} {
		t.Run(name, func(t *testing.T) {
			together(t, 2, func(t *testing.T, s *several) {
				s.asking(func(ctx context.Context, c *Call) ([]byte, *mcp.Error) {
					answer := asks(ctx, c, "a")
					if tells {
						_ = c.Notify(ctx, "large", []byte(answer))
						time.Sleep(100 * time.Millisecond)
					}
					return []byte(answer), nil
				})
				s.letters(func(string) sim.Fate { return sim.Fate{There: time.Millisecond, Back: time.Millisecond} })
				asked := s.all[0].calls("x", "")
				c := s.all[1].calls("x", answersTo(&asked.heldConn, `{"a":{"large":"`+large+`"}}`))
				pass(time.Second)
				_, body := c.answer()
				got := append(c.events(), body)
				if strings.Count(strings.Join(got, ""), `{"large":"`+large+`"}`) != map[bool]int{false: 1, true: 2}[tells] {
					t.Errorf("%d messages, of %d bytes", len(got), len(strings.Join(got, "")))
				}
			})
		})
	}
}

// TestFirstRetryWins has two nodes take the retry at the same time: other answers are refused, and the same ones get the same
// response. So it is after the call has ended.
func TestFirstRetryWins(t *testing.T) {
	together(t, 4, func(t *testing.T, s *several) {
		goOn := make(chan struct{})
		s.asking(func(ctx context.Context, c *Call) ([]byte, *mcp.Error) {
			answer := asks(ctx, c, "a")
			<-goOn
			return []byte(answer), nil
		})
		asked := s.all[0].calls("safe", "")
		same, other := answersTo(&asked.heldConn, `{"a":{"n":1}}`), answersTo(&asked.heldConn, `{"a":{"n":2}}`)
		first, late, again := s.all[1].calls("safe", same), s.all[2].calls("safe", other), s.all[3].calls("safe", same)
		isBadState(t, "other answers at another node", &late.heldConn)
		close(goOn)
		isAnswer(t, "the first", first, `{"n":1}`)
		isAnswer(t, "the same at another node", again, `{"n":1}`)
		isAnswer(t, "the same after the call has ended", s.all[2].calls("safe", same), `{"n":1}`)
		isBadState(t, "other answers after the call has ended", &s.all[3].calls("safe", other).heldConn)
		if runs := s.all[0].runs.Load() + s.all[1].runs.Load() + s.all[2].runs.Load() + s.all[3].runs.Load(); runs != 1 {
			t.Errorf("the handler ran %d times", runs)
		}
	})
}

// TestRetryWhileItsNodeIsSilent checks that no second run begins while the first one may wait, though the call may run again.
func TestRetryWhileItsNodeIsSilent(t *testing.T) {
	together(t, 2, func(t *testing.T, s *several) {
		s.asking(func(ctx context.Context, c *Call) ([]byte, *mcp.Error) { return []byte(asks(ctx, c, "a")), nil })
		asked := s.all[0].calls("safe", "")
		retry := answersTo(&asked.heldConn, `{"a":{}}`)
		s.letters(loses(exchangeRetry))
		began := time.Now()
		c := s.all[1].calls("safe", retry)
		pass(5 * time.Second)
		isLater(t, "while letters are lost", c)
		s.letters(nil)
		s.all[1].box.Cut(true) // so that it cannot tell who is gone
		c = s.all[1].calls("safe", retry)
		pass(5 * time.Second)
		isLater(t, "while the node is cut off", c)
		if took := time.Since(began); took > 11*time.Second {
			t.Errorf("two refusals took %v", took)
		}
		s.all[1].box.Cut(false)
		isAnswer(t, "once it is heard", s.all[1].calls("safe", retry), `{}`)
		if s.all[0].runs.Load() != 1 || s.all[1].runs.Load() != 0 {
			t.Errorf("the handler ran %d and %d times", s.all[0].runs.Load(), s.all[1].runs.Load())
		}
	})
}

// TestRetryWhoseReplyIsLost checks that a call that was taken without its client's knowledge goes on with the next retry.
func TestRetryWhoseReplyIsLost(t *testing.T) {
	together(t, 2, func(t *testing.T, s *several) {
		s.asking(func(ctx context.Context, c *Call) ([]byte, *mcp.Error) {
			answer := asks(ctx, c, "a")
			time.Sleep(9 * time.Second)
			return []byte(answer), nil
		})
		asked := s.all[0].calls("x", "")
		retry := answersTo(&asked.heldConn, `{"a":{}}`)
		s.letters(func(k string) sim.Fate {
			if k == exchangeRetry {
				return sim.Fate{Back: time.Minute}
			}
			return sim.Fate{}
		})
		c := s.all[1].calls("x", retry)
		pass(5 * time.Second)
		isLater(t, "without a reply", c)
		s.letters(nil)
		c = s.all[1].calls("x", retry)
		pass(time.Minute)
		isAnswer(t, "the next one", c, `{}`)
		if s.all[0].runs.Load() != 1 {
			t.Errorf("the handler ran %d times", s.all[0].runs.Load())
		}
	})
}

// TestRetryWhoseNodeIsGone checks that a call goes on where it may run again once its process is dead, and is lost where it may
// not. So it is if the process lives and does not have the call.
func TestRetryWhoseNodeIsGone(t *testing.T) {
	for name, gone := range map[string]func(m *fellow){
		"dead":         func(m *fellow) { m.box.Kill() },
		"without it":   func(m *fellow) { m.statelessCalls.giveUp(nil, ErrUnmounted) },
		"about to end": func(m *fellow) { m.drain.closing.Store(true) },
	} {
		t.Run(name, func(t *testing.T) {
			together(t, 2, func(t *testing.T, s *several) {
				s.asking(func(ctx context.Context, c *Call) ([]byte, *mcp.Error) {
					return []byte(`[` + asks(ctx, c, "a") + `,` + asks(ctx, c, "b") + `]`), nil
				})
				safe, once := s.all[0].calls("safe", ""), s.all[0].calls("x", "")
				gone(s.all[0])
				synctest.Wait()
				second := s.all[1].calls("safe", answersTo(&safe.heldConn, `{"a":{"n":1}}`))
				isAnswer(t, "a call that may run again", s.all[1].calls("safe", answersTo(&second.heldConn, `{"b":{"n":2}}`)), `[{"n":1},{"n":2}]`)
				if _, body := s.all[1].calls("x", answersTo(&once.heldConn, `{"a":{"n":1}}`)).answer(); !strings.Contains(body, "-32010") {
					t.Errorf("a call that may not: got %q", body)
				}
				if s.all[1].runs.Load() != 1 {
					t.Errorf("the handler ran %d times on the second node", s.all[1].runs.Load())
				}
				s.all[0].drain.closing.Store(false)
				s.all[0].statelessCalls.giveUp(nil, ErrClosing)
			})
		})
	}
}

// TestForwardedClientIsGone checks that the client cancels the call by closing its connection to another node, and that this
// does not end a call that waits.
func TestForwardedClientIsGone(t *testing.T) {
	for name, streams := range map[string]bool{"before anything was sent": false, "a stream": true} {
		t.Run(name, func(t *testing.T) {
			together(t, 2, func(t *testing.T, s *several) {
				var cause error
				s.asking(func(ctx context.Context, c *Call) ([]byte, *mcp.Error) {
					_ = asks(ctx, c, "a")
					if streams {
						_ = c.Notify(ctx, "x", nil)
					}
					<-ctx.Done()
					cause = context.Cause(ctx)
					return nil, Unavailable
				})
				asked := s.all[0].calls("x", "")
				asked.close()
				synctest.Wait()
				c := s.all[1].calls("x", answersTo(&asked.heldConn, `{"a":{}}`))
				pass(time.Second)
				if cause != nil {
					t.Fatalf("the call ended: %v", cause)
				}
				c.close()
				if synctest.Wait(); cause == nil || !strings.Contains(cause.Error(), "closed") {
					t.Errorf("the call goes on, or ended because of %v", cause)
				}
			})
		})
	}
}

// TestForwardLosesFrames loses what a call sends: the client is told to come back, or its connection is cut, and the request that it sends
// again gets the outcome. The handler does not notice.
func TestForwardLosesFrames(t *testing.T) {
	for name, tt := range map[string]struct {
		tells bool
		lost  string
	}{"a response": {false, exchangeFrame}, "a stream": {true, exchangeFrame}, "a silent node": {true, exchangeAlive}} {
		t.Run(name, func(t *testing.T) {
			together(t, 3, func(t *testing.T, s *several) {
				var fault error
				s.asking(func(ctx context.Context, c *Call) ([]byte, *mcp.Error) {
					answer := asks(ctx, c, "a")
					for range 10 {
						time.Sleep(time.Second)
						if tt.tells {
							fault = c.Notify(ctx, "x", nil)
						}
					}
					time.Sleep(20 * time.Second)
					return []byte(answer), nil
				})
				asked := s.all[0].calls("x", "")
				retry := answersTo(&asked.heldConn, `{"a":{}}`)
				c := s.all[1].calls("x", retry)
				pass(5500 * time.Millisecond)
				s.letters(loses(tt.lost))
				pass(7 * time.Second)
				s.letters(nil)
				if !tt.tells {
					pass(30 * time.Second) // until the response is lost
				}
				synctest.Wait()
				if tt.tells && !c.over {
					t.Error("the connection is open")
				}
				again := s.all[2].calls("x", retry)
				pass(time.Minute)
				status, body := again.answer()
				if got := append(again.events(), body); !strings.Contains(strings.Join(got, ""), `"result":{}`) || fault != nil {
					t.Errorf("the request that was sent again got %d %q, and the handler %v", status, got, fault)
				}
				if s.all[0].runs.Load() != 1 {
					t.Errorf("the handler ran %d times", s.all[0].runs.Load())
				}
			})
		})
	}
}

// TestForwardLosesItsResponse loses the only frame of a call.
func TestForwardLosesItsResponse(t *testing.T) {
	together(t, 2, func(t *testing.T, s *several) {
		s.asking(func(ctx context.Context, c *Call) ([]byte, *mcp.Error) {
			answer := asks(ctx, c, "a")
			time.Sleep(time.Second)
			return []byte(answer), nil
		})
		asked := s.all[0].calls("x", "")
		retry := answersTo(&asked.heldConn, `{"a":{}}`)
		s.letters(loses(exchangeFrame))
		c := s.all[1].calls("x", retry)
		pass(8 * time.Second)
		isLater(t, "without a response", c)
		s.letters(nil)
		isAnswer(t, "the request that was sent again", s.all[1].calls("x", retry), `{}`)
	})
}

// TestNodeWithTheConnectionIsKilled checks that a call goes on without its exchange, and gives another one the rest.
func TestNodeWithTheConnectionIsKilled(t *testing.T) {
	together(t, 3, func(t *testing.T, s *several) {
		ended := false
		s.asking(func(ctx context.Context, c *Call) ([]byte, *mcp.Error) {
			answer := asks(ctx, c, "a")
			for i := range 30 {
				large := ""
				if i == 9 { // there is nobody to hear it
					large = strings.Repeat("x", 2<<20)
				}
				if c.Notify(ctx, "x", fmt.Appendf(nil, `{"n":%d,"large":%q}`, i, large)) != nil {
					return nil, Unavailable
				}
				time.Sleep(time.Second)
			}
			ended = true
			return []byte(answer), nil
		})
		asked := s.all[0].calls("x", "")
		retry := answersTo(&asked.heldConn, `{"a":{}}`)
		c := s.all[1].calls("x", retry)
		pass(3 * time.Second)
		s.all[1].box.Kill()
		pass(7 * time.Second) // longer than a node is waited for
		again := s.all[2].calls("x", retry)
		pass(5 * time.Second)
		if n := len(again.events()); n == 0 || !c.over {
			t.Errorf("%d messages go to the new connection; the old one is over: %v", n, c.over)
		}
		if in := s.all[0].accounts.InFlight(); in != 1 {
			t.Errorf("%d requests are in flight", in)
		}
		again.close()
		synctest.Wait()
		pass(time.Minute)
		if ended {
			t.Error("the new client closed its connection, and the call went on")
		}
	})
}

// TestNodeOfTheCallIsKilled checks that the client of a dead process is told to come back.
func TestNodeOfTheCallIsKilled(t *testing.T) {
	together(t, 2, func(t *testing.T, s *several) {
		s.asking(func(ctx context.Context, c *Call) ([]byte, *mcp.Error) {
			answer := asks(ctx, c, "a")
			time.Sleep(30 * time.Second)
			return []byte(answer), nil
		})
		asked := s.all[0].calls("safe", "")
		retry := answersTo(&asked.heldConn, `{"a":{}}`)
		c := s.all[1].calls("safe", retry)
		s.all[0].box.Kill()
		pass(7 * time.Second)
		isLater(t, "when the process is dead", c)
		c = s.all[1].calls("safe", retry)
		pass(time.Minute)
		if got := c.events(); len(got) != 1 || !strings.Contains(got[0], `"result":{}`) || s.all[1].runs.Load() != 1 {
			t.Errorf("the request that was sent again got %q, after %d runs", got, s.all[1].runs.Load())
		}
	})
}

// TestSlowClientOfAForward checks that a client that does not read has no more than the window on its way and its share waiting,
// and is cut off then; the call ends as with a connection of its own.
func TestSlowClientOfAForward(t *testing.T) {
	together(t, 2, func(t *testing.T, s *several) {
		event := []byte(`"` + strings.Repeat("x", 50_000) + `"`)
		sent := 0
		s.asking(func(ctx context.Context, c *Call) ([]byte, *mcp.Error) {
			_ = asks(ctx, c, "a")
			for ctx.Err() == nil && sent < 1000 {
				_ = c.Notify(ctx, "x", event)
				sent++
				time.Sleep(time.Millisecond)
			}
			return nil, Unavailable
		})
		asked := s.all[0].calls("x", "")
		c := newCaller()
		c.most = 2
		s.all[1].callsOn(c, "anon", "x", answersTo(&asked.heldConn, `{"a":{}}`))
		pass(10 * time.Millisecond)
		if n := s.all[1].accounts.BytesOf(quota.Queues); n > relay.Window+exchangeBytes || n < exchangeBytes {
			t.Errorf("the node with the connection holds %d bytes", n)
		}
		pass(time.Second) // less than a silent node is waited for
		if held := (1<<20 + relay.Window) / 50_000; sent < held || sent > held+10 || !c.over {
			t.Errorf("%d events were sent, and about %d fit; the connection is over: %v", sent, held, c.over)
		}
	})
}

// TestForwardsAreCounted checks the limits of a principal on the node of its call, and that what is refused there is told to
// the client.
func TestForwardsAreCounted(t *testing.T) {
	together(t, 2, func(t *testing.T, s *several) {
		s.asking(func(ctx context.Context, c *Call) ([]byte, *mcp.Error) { return []byte(asks(ctx, c, "a")), nil })
		asked := s.all[0].calls("x", "")
		retry := answersTo(&asked.heldConn, `{"a":{}}`)
		a := s.all[0].accounts.Of("anon", "192.0.2.1")
		for range s.all[0].accounts.limits.Principal.Calls {
			if no, ok := s.all[0].accounts.AdmitRequest(a); no != quota.Admitted || !ok {
				t.Fatal("not admitted")
			}
		}
		if status, body := s.all[1].calls("x", retry).answer(); status != 429 || !strings.Contains(body, `"id":1`) {
			t.Errorf("with all calls in use there: %d %q", status, body)
		}
		for range s.all[0].accounts.limits.Principal.Calls {
			s.all[0].accounts.LeavePlace(a)
		}
		isAnswer(t, "with a place", s.all[1].calls("x", retry), `{}`)
	})
}

// TestForwardsOfOthers checks that the node of the call verifies whose the state is: letters of another principal, or for another
// server, get the answer for any bad state.
func TestForwardsOfOthers(t *testing.T) {
	together(t, 2, func(t *testing.T, s *several) {
		s.asking(func(ctx context.Context, c *Call) ([]byte, *mcp.Error) { return []byte(asks(ctx, c, "a")), nil })
		for _, m := range s.all {
			m.mrtr.keys = boundKeys{}
		}
		asked := s.all[0].calls("x", "")
		retry := answersTo(&asked.heldConn, `{"a":{}}`)
		foreign := newCaller()
		s.all[1].callsOn(foreign, "other", "x", retry)
		isBadState(t, "another principal", &foreign.heldConn)
		own := s.all[1].svc
		s.all[1].svc = NewService("another", own.Handler, Limits{})
		isBadState(t, "another server", &s.all[1].calls("x", retry).heldConn)
		s.all[1].svc = own
		s.all[1].mrtr.keys = benchKeys{} // the node where it lands does not look
		body := toolCall("1", retry)
		for what, head := range map[string]*forwardHead{"tenant": {Tenant: "other", Server: "s"}, "server": {Tenant: "anon", Server: "another"}} {
			c, x := newCaller(), relay.NewID()
			l := &proxy{to: s.all[0].fleet.selfAddress(), id: x, conn: c}
			l.Near = relay.NewNear(x, &l.held, func([]byte) {}, func() {})
			s.all[1].relays.proxies.Put(x, l)
			if _, err := s.all[1].fleet.forwardRequest(t.Context(), l.to, exchangeRetry, x, head, []byte(body)); err != nil {
				t.Fatal(err)
			}
			m, err := l.NextMessage(t.Context())
			if err != nil || m.Kind != relay.Reject || !strings.Contains(string(m.Data), "requestState") {
				t.Errorf("a letter for another %s: %d %s, %v", what, m.Kind, m.Data, err)
			}
			s.all[1].relays.proxies.Drop(x, l)
		}
		s.all[1].mrtr.keys = boundKeys{}
		isAnswer(t, "the principal itself", s.all[1].calls("x", retry), `{}`)
	})
}

// boundKeys seal nothing, and open what was sealed with the same aad.
type boundKeys struct{ benchKeys }

func (boundKeys) Seal(plain, aad []byte) ([]byte, error) {
	return append(fmt.Appendf(nil, "%d %s", len(aad), aad), plain...), nil
}

func (boundKeys) Open(sealed, aad []byte) ([]byte, error) {
	plain, ok := bytes.CutPrefix(sealed, fmt.Appendf(nil, "%d %s", len(aad), aad))
	if !ok {
		return nil, errBadEvent
	}
	return plain, nil
}

// TestBadLetters sends a node what no node sends.
func TestBadLetters(t *testing.T) {
	together(t, 2, func(t *testing.T, s *several) {
		asked := 0
		s.asking(func(ctx context.Context, c *Call) ([]byte, *mcp.Error) { return []byte(asks(ctx, c, "a")), nil })
		state := answersTo(&s.all[0].calls("x", "").heldConn, `{"a":{}}`)
		id := relay.NewID()
		begin := func(head, body string) []byte {
			return (&relay.Begin{ID: relay.NewID(), Size: len(body), Head: []byte(head), Data: []byte(body)}).Append(nil)
		}
		const head = `{"Tenant":"anon","Server":"s","Session":"x"}`
		for what, tt := range map[string]struct {
			kind string
			data []byte
		}{
			"no retry":               {exchangeRetry, nil},
			"half a retry":           {exchangeRetry, id[:9]},
			"a head that is no JSON": {exchangeRetry, begin("{", "")},
			"a body that is no JSON": {exchangeRetry, begin(head, "{")},
			"no request":             {exchangeRetry, begin(head, `{"jsonrpc":"2.0","method":"x"}`)},
			"no state":               {exchangeRetry, begin(head, toolCall("1", ""))},
			"a message in no JSON":   {exchangeMessage, begin(head, "{")},
			"no message":             {exchangeMessage, nil},
			"a letter of no kind":    {exchangeLetter, begin(head, "{}")},
			"a kind that is short":   {exchangeLetter, begin(`{"Tenant":"anon","Server":"s","Kind":"cancel"}`, "{}")},
			"a letter in no JSON":    {exchangeLetter, begin(`{"Tenant":"anon","Server":"s","Kind":"answer"}`, "{")},
			"a part of nothing":      {exchangePart, (&relay.Part{ID: id, Data: []byte("x")}).Append(nil)},
			"no part":                {exchangePart, nil},
		} {
			asked++
			if reply, err := s.all[1].fleet.mail.Ask(t.Context(), s.all[0].fleet.selfAddress(), tt.kind, tt.data); err != nil || len(reply) != 1 || reply[0] < tryAgain {
				t.Errorf("%s: %d, %v", what, reply, err)
			}
		}
		for _, kind := range []string{exchangeFrame, exchangeAlive, exchangeGone} {
			for _, data := range [][]byte{{1}, id[:], append(id[:], 0xff), (&relay.Gone{ID: id}).Append(nil), (&relay.Alive{ID: id, Num: 1 << 60, Credit: 1 << 60}).Append(nil), (&relay.Frame{ID: id, Num: 1, Kind: relay.Open}).Append(nil)} {
				s.all[1].fleet.mail.Send(s.all[0].fleet.selfAddress(), kind, data)
			}
		}
		synctest.Wait()
		if n := s.all[0].fleet.unknown.Load(); n < int64(asked) {
			t.Errorf("%d bad letters were counted", n)
		}
		// The beginning of a request whose end never comes.
		if reply, err := s.all[1].fleet.mail.Ask(t.Context(), s.all[0].fleet.selfAddress(), exchangeRetry, (&relay.Begin{ID: id, Size: 1 << 20, Head: []byte(head), Data: []byte("{")}).Append(nil)); err != nil || !bytes.Equal(reply, []byte{done, sendMore}) {
			t.Errorf("half a request: %d, %v", reply, err)
		}
		if s.all[0].accounts.InFlight() != 1 || s.all[0].accounts.BytesOf(quota.Bodies) < 1<<20 {
			t.Error("half a request is not counted")
		}
		pass(7 * time.Second)
		if in, bytes := s.all[0].accounts.InFlight(), s.all[0].accounts.BytesOf(quota.Bodies); in != 0 || bytes != 0 {
			t.Errorf("half a request that was given up: %d in flight, %d bytes", in, bytes)
		}
		isAnswer(t, "after all that", s.all[1].calls("x", state), `{}`)
	})
}

// TestFramesOfOthers checks that only the node of the call is heard, and a letter that comes twice counts once.
func TestFramesOfOthers(t *testing.T) {
	together(t, 3, func(t *testing.T, s *several) {
		goOn := make(chan struct{})
		s.asking(func(ctx context.Context, c *Call) ([]byte, *mcp.Error) {
			answer := asks(ctx, c, "a")
			<-goOn
			return []byte(answer), nil
		})
		asked := s.all[0].calls("x", "")
		c := s.all[1].calls("x", answersTo(&asked.heldConn, `{"a":{}}`))
		var x *proxy
		s.all[1].relays.proxies.Each(func(l *proxy) { x = l })
		stranger, to := s.all[2].fleet.mail, s.all[1].fleet.selfAddress()
		stranger.Send(to, exchangeFrame, (&relay.Frame{ID: x.id, Num: 1, Kind: relay.Answer, Status: 200, Data: []byte("{}")}).Append(nil))
		stranger.Send(to, exchangeGone, (&relay.Gone{ID: x.id}).Append(nil))
		stranger.Send(to, exchangeAlive, (&relay.Alive{ID: x.id, Num: 9}).Append(nil))
		stranger.Send(s.all[0].fleet.selfAddress(), exchangeGone, (&relay.Gone{ID: x.id}).Append(nil))
		synctest.Wait()
		if c.begun() || s.all[0].relays.exchanges.Len() != 1 {
			t.Error("a stranger was heard")
		}
		// The same request once more, under the same id.
		body := []byte(toolCall("1", answersTo(&asked.heldConn, `{"a":{}}`)))
		ctx, cancel := context.WithTimeout(t.Context(), time.Second)
		defer cancel()
		if _, err := s.all[1].fleet.forwardRequest(ctx, s.all[0].fleet.selfAddress(), exchangeRetry, x.id, &forwardHead{Tenant: "anon", Address: "192.0.2.1", Server: "s"}, body); err == nil {
			t.Error("the second letter has a reply")
		}
		close(goOn)
		isAnswer(t, "after all that", c, `{}`)
	})
}

// TestForwardsInADrain checks that neither end of an exchange keeps a node from ending, and that the client is told to come back.
func TestForwardsInADrain(t *testing.T) {
	for name, ends := range map[string]int{"of the node with the connection": 1, "of the node with the call": 0} {
		t.Run(name, func(t *testing.T) {
			together(t, 3, func(t *testing.T, s *several) {
				s.asking(func(ctx context.Context, c *Call) ([]byte, *mcp.Error) {
					answer := asks(ctx, c, "a")
					select {
					case <-ctx.Done():
						return nil, Unavailable
					case <-time.After(5 * time.Second):
						return []byte(answer), nil
					}
				})
				asked := s.all[0].calls("safe", "")
				retry := answersTo(&asked.heldConn, `{"a":{}}`)
				c := s.all[1].calls("safe", retry)
				ctx, cancel := context.WithTimeout(t.Context(), time.Second)
				defer cancel()
				s.all[ends].HandOver(ctx, nil)
				isLater(t, "the client", c)
				if ends == 0 {
					isLater(t, "a retry", s.all[2].calls("safe", retry))
					s.all[0].box.Kill()
				}
				c = s.all[2].calls("safe", retry)
				pass(10 * time.Second)
				isAnswer(t, "the request that was sent again", c, `{}`)
			})
		})
	}
}
