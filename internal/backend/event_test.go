package backend

import (
	"context"
	"testing"
	"testing/synctest"
	"time"

	"github.com/troupe-run/troupe/host"
)

// TestRootsWaitForACall: a server that asks for roots while it lists is answered by the client of the first call, before it gets that; and what a call leaves open is put
// to the next one. Who waits for an answer before it lists is refused.
func TestRootsWaitForACall(t *testing.T) {
	for name, x := range map[string]struct {
		lists time.Duration // how long it takes to list
		want  string
	}{
		"at once": {0, `{"roots":[{"uri":"file:///a"}]}`},
		"slowly":  {rootsPatience + time.Second, `{"code":-32600,"message":"no call is running that could be asked"}`},
	} {
		t.Run(name, func(t *testing.T) {
			heard := make(chan string, 3)
			mk := &maker{
				tools: func(s *server) string {
					s.say(`{"jsonrpc":"2.0","id":"at first","method":"roots/list"}`)
					time.Sleep(x.lists)
					return `{"name":"echo","inputSchema":{"type":"object"}}`
				},
				handle: func(s *server, m message) {
					if m.Method == "" {
						heard <- string(m.Result) + string(m.Error)
						return
					}
					time.Sleep(time.Second) // what came before has been heard then
					select {
					case said := <-heard:
						s.result(m, said)
					default:
						s.say(`{"jsonrpc":"2.0","id":"left open","method":"roots/list"}`)
						s.result(m, `{}`)
					}
				},
			}
			inBubble(t, Config{}, []Backend{made("made", mk, host.Options{Roots: host.Roots{Forward: true}})}, func(t *testing.T, b *Backends) {
				c := Caller{Session: "s", Capabilities: []byte(`{"roots":{}}`)}
				answer := func(e Event) {
					go func() {
						time.Sleep(time.Second)
						if err := e.Answer(context.Background(), []byte(`{"roots":[{"uri":"file:///a"}]}`)); err != nil {
							t.Error(err)
						}
					}()
				}
				if _, err := b.Learn(t.Context(), "made", c); err != nil {
					t.Fatal(err)
				}
				if got := call(t, b, "made", c, Request{Asks: true, Event: answer}); got != x.want {
					t.Errorf("with the first call the server had heard %s, want %s", got, x.want)
				}
				left := make(chan Event, 1)
				if got := call(t, b, "made", c, Request{Asks: true, Event: func(e Event) { left <- e }}); got != `{}` {
					t.Errorf("the second call: %s", got)
				}
				synctest.Wait()
				e := <-left
				if !e.PutOff() {
					t.Error("the question is not put off")
				}
				if got, want := call(t, b, "made", c, Request{Asks: true, Event: answer}), `{"roots":[{"uri":"file:///a"}]}`; got != want {
					t.Errorf("with the third call the server had heard %s, want %s", got, want)
				}
			})
		})
	}
}
