package actors

import (
	"context"
	"fmt"
	"math/rand/v2"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/troupe-run/troupe/codec"
	"github.com/troupe-run/troupe/mcp"
	"github.com/troupe-run/troupe/test/kit/when"
	"github.com/troupe-run/troupe/test/sim"
)

// TestAbandonedForwards leaves exchanges: clients go, and nodes are cut off or killed. Nothing stays behind, as together
// checks.
func TestAbandonedForwards(t *testing.T) {
	for name, abandon := range map[string]func(s *several, clients []*caller){
		"by their clients": func(_ *several, clients []*caller) {
			for _, c := range clients {
				c.close()
			}
		},
		"by the node with the connections": func(s *several, _ []*caller) { s.all[1].box.Kill() },
		"by the node of the calls":         func(s *several, _ []*caller) { s.all[0].box.Kill() },
		"by both":                          func(s *several, _ []*caller) { s.all[0].box.Cut(true) },
		"by their clients, while nobody hears of it": func(s *several, clients []*caller) {
			s.letters(loses(exchangeGone))
			clients[0].close()
			clients[1].close()
		},
		"by both, while neither side hears the other one": func(s *several, _ []*caller) { s.letters(loses(exchangeAlive)) },
	} {
		t.Run(name, func(t *testing.T) {
			together(t, 2, func(t *testing.T, s *several) {
				all := 30
				if testing.Short() {
					all = 10
				}
				s.asking(func(ctx context.Context, c *Call) ([]byte, *mcp.Error) {
					answer := asks(ctx, c, "a")
					for range 20 {
						_ = c.Notify(ctx, "x", []byte(`"`+strings.Repeat("x", 10_000)+`"`))
						time.Sleep(time.Second)
					}
					return []byte(answer), nil
				})
				var clients []*caller
				for i := range all {
					asked := s.all[0].calls("x", "")
					c := newCaller()
					c.most = i % 7 // of which some do not read
					s.all[1].callsOn(c, "anon", "x", answersTo(&asked.heldConn, `{"a":{}}`))
					clients = append(clients, c)
					time.Sleep(10 * time.Millisecond)
				}
				if near, far := s.all[1].relays.proxies.Len(), s.all[0].relays.exchanges.Len(); near != all || far != all {
					t.Errorf("%d and %d exchanges", near, far)
				}
				abandon(s, clients)
				pass(10 * time.Second)
				for _, c := range clients {
					c.close()
				}
			})
		})
	}
}

// TestRandomForwards has clients that follow the protocol while letters are lost and late: they send a request again that was not
// answered. Each call runs once and gets its client's answers, whichever nodes the requests reach.
func TestRandomForwards(t *testing.T) {
	when.Unraced(t, "one goroutine does all of it")
	forwarded, broken := int64(0), int64(0)
	seeds := uint64(20)
	if testing.Short() {
		seeds = 4
	}
	for seed := range seeds {
		together(t, 3, func(t *testing.T, s *several) {
			rnd := rand.New(rand.NewPCG(seed, 7))
			var mu sync.Mutex // guards rnd
			random := func(n int) int {
				mu.Lock()
				defer mu.Unlock()
				return rnd.IntN(n)
			}
			s.letters(func(string) sim.Fate {
				return sim.Fate{Lost: random(30) == 0, There: time.Duration(random(50)) * time.Millisecond, Back: time.Duration(random(50)) * time.Millisecond}
			})
			s.asking(func(ctx context.Context, c *Call) ([]byte, *mcp.Error) {
				var answers []string
				for _, key := range []string{"a", "b", "c"} {
					answers = append(answers, asks(ctx, c, key))
					_ = c.Notify(ctx, "x", []byte(`"`+strings.Repeat("x", random(200_000))+`"`))
					time.Sleep(time.Duration(random(5000)) * time.Millisecond)
				}
				return []byte(`[` + strings.Join(answers, ",") + `]`), nil
			})
			const calls = 6
			var ended sync.WaitGroup
			for i := range calls {
				ended.Go(func() {
					response, more, tries := "", "", 0
					for round := 0; !strings.Contains(response, `"result":[`); tries++ {
						if tries > 100 {
							t.Errorf("seed %d: no response in %d tries, last %.200q", seed, tries, response)
							return
						}
						c := newCaller()
						s.all[random(3)].sends(c, "anon", "x", more)
						for deadline := time.Now().Add(time.Minute); !c.ended() && time.Now().Before(deadline); {
							time.Sleep(50 * time.Millisecond)
						}
						_, body := c.answer()
						if got := c.events(); len(got) > 0 {
							body = got[len(got)-1]
						}
						c.close()
						if !strings.Contains(body, `"id":1`) || strings.Contains(body, "retryAfterMs") {
							continue // it was cut off, or is told to come back
						}
						if response = body; strings.Contains(body, "input_required") {
							state := codec.Field(codec.Field([]byte(body), "result"), "requestState")
							more = fmt.Sprintf(`,"requestState":%s,"inputResponses":{%q:{"n":%d}}`, state, string(rune('a'+round)), 10*i+round)
							round++
						}
					}
					if want := fmt.Sprintf(`"result":[{"n":%d},{"n":%d},{"n":%d}]`, 10*i, 10*i+1, 10*i+2); !strings.Contains(response, want) {
						t.Errorf("seed %d: got %.300s, want %s", seed, response, want)
					}
				})
			}
			ended.Wait()
			s.letters(nil)
			runs := 0
			for _, m := range s.all {
				runs += int(m.runs.Load())
				forwarded, broken = forwarded+m.Stats().Forwarded, broken+m.Stats().Broken
			}
			if runs != calls {
				t.Errorf("seed %d: %d calls ran %d times", seed, calls, runs)
			}
		})
	}
	if forwarded == 0 || broken == 0 {
		t.Errorf("%d requests were forwarded, and %d exchanges broke", forwarded, broken)
	}
}

// ended reports whether the client has all that comes on the connection.
func (c *caller) ended() bool {
	c.mu.Lock()
	defer c.mu.Unlock()
	return c.over || c.status != 0
}
