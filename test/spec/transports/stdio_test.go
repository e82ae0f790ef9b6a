package transports_test

import (
	"bufio"
	"context"
	"errors"
	"fmt"
	"io"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/troupe-run/troupe"
	"github.com/troupe-run/troupe/test/kit"
	"github.com/troupe-run/troupe/test/kit/when"
	"github.com/troupe-run/troupe/test/spec/host"
)

func TestStdio(t *testing.T) {
	for _, revision := range troupe.Revisions()[:4] { // those with a handshake
		t.Run(revision, func(t *testing.T) {
			p := host.NewPipe(t, troupe.Options{})
			host.Equal(t, "early", p.Ask(host.Call("1", "echo", `{"text":"x"}`)), `{"jsonrpc":"2.0","id":1,"error":{"code":-32600,"message":"initialize first"}}`)
			host.Equal(t, "no JSON", p.Ask(`{"jsonrpc":`), `{"jsonrpc":"2.0","error":{"code":-32700,"message":"unexpected end of the message, at byte 12"}}`)
			p.Initialize(revision)
			host.Equal(t, "echo", p.Ask(host.Call("2", "echo", `{"text":"héllo\n你好"}`)), host.TextResult("2", `héllo\n你好`))
			question := p.Ask(host.Call("3", "pingback", `{}`))
			host.Equal(t, "the answer to a question", p.Ask(host.AnswerTo(question, `{}`)), host.TextResult("3", "pong"))
			p.Send(host.Call("4", "sleep", `{"ms":3600000}`), host.Cancel("4"))
			host.Equal(t, "after a cancel", p.Ask(`{"jsonrpc":"2.0","id":5,"method":"ping"}`), `{"jsonrpc":"2.0","id":5,"result":{}}`)
			got := p.Ask(host.Batch(host.Call("6", "echo", `{"text":"six"}`)))
			want := host.Batch(host.TextResult("6", "six"))
			if revision > "2025-03-26" {
				want = `{"jsonrpc":"2.0","error":{"code":-32600,"message":"revision ` + revision + ` has no batches: send one message at a time"}}`
			}
			host.Equal(t, "batch", got, want)
			p.In.Close()
			if rest := p.End(); len(rest) != 0 {
				t.Errorf("after the end of the input: %q", rest)
			}
		})
	}
}

// TestStdioBatch checks that the responses to a batch are one line, an array, even those of calls
// that are given up when the input ends.
func TestStdioBatch(t *testing.T) {
	kit.Bubble(t, func(t *testing.T) {
		p := host.NewPipe(t, troupe.Options{DrainWait: 20 * time.Second})
		p.Initialize("2025-03-26")
		host.Equal(t, "two calls and a ping", p.Ask(host.Batch(host.Call("1", "sleep", `{"ms":100}`), host.Call("2", "sleep", `{"ms":50}`), `{"jsonrpc":"2.0","id":"p","method":"ping"}`)),
			host.Batch(`{"jsonrpc":"2.0","id":"p","result":{}}`, host.TextResult("2", "slept"), host.TextResult("1", "slept")))
		p.Send(host.Batch(host.Call("3", "sleep", `{"ms":3600000}`), host.Call("4", "sleep", `{"ms":100}`)))
		p.In.Close()
		host.Equal(t, "given up", strings.Join(p.End(), "\n"), host.Batch(host.TextResult("4", "slept"),
			`{"jsonrpc":"2.0","id":3,"error":{"code":-32010,"message":"the node running this call was lost; whether it took effect is unknown"}}`))
	})
}

func TestStdioAnswersTenThousandCallsSentAtOnce(t *testing.T) {
	when.Long(t, "a crowd")
	p := host.NewPipe(t, troupe.Options{})
	p.Initialize("2025-11-25")
	const n = 10000
	go func() {
		w := bufio.NewWriter(p.In)
		for i := range n {
			_, _ = w.WriteString(host.Call(fmt.Sprint(i), "echo", fmt.Sprintf(`{"text":"number %d"}`, i)) + "\n")
		}
		_ = w.Flush()
		_ = p.In.Close() // in mid-call: the requests so far get their responses
	}()
	seen := make(map[string]bool, n)
	for _, line := range p.End() {
		if seen[line] {
			t.Errorf("twice: %s", line)
		}
		seen[line] = true
	}
	for i := range n {
		if want := host.TextResult(fmt.Sprint(i), fmt.Sprintf("number %d", i)); !seen[want] {
			t.Fatalf("no answer %s among %d", want, len(seen))
		}
	}
	if len(seen) != n {
		t.Errorf("%d answers", len(seen))
	}
}

func TestStdioEnds(t *testing.T) {
	run := func(name string, f func(t *testing.T, p *host.Pipe)) {
		t.Run(name, func(t *testing.T) {
			kit.Bubble(t, func(t *testing.T) {
				p := host.NewPipe(t, troupe.Options{DrainWait: 20 * time.Second})
				p.Initialize("2025-11-25")
				f(t, p)
			})
		})
	}
	lost := `{"jsonrpc":"2.0","id":2,"error":{"code":-32010,"message":"the node running this call was lost; whether it took effect is unknown"}}`
	run("input ends in mid-call", func(t *testing.T, p *host.Pipe) {
		begin := time.Now()
		p.Send(host.Call("1", "sleep", `{"ms":5000}`), host.Call("2", "sleep", `{"ms":3600000}`))
		p.In.Close()
		host.Equal(t, "a call that ends in time", p.Next(), host.TextResult("1", "slept"))
		host.Equal(t, "one that does not", strings.Join(p.End(), "\n"), lost)
		if d := time.Since(begin); d < 20*time.Second || d > 22*time.Second {
			t.Errorf("after %v", d)
		}
	})
	run("a question nobody can answer any more", func(t *testing.T, p *host.Pipe) {
		begin := time.Now()
		p.Ask(host.Call("1", "ask", `{"question":"who?"}`))
		p.In.Close()
		host.Contains(t, "the call", strings.Join(p.End(), "\n"), `"isError":true`)
		if d := time.Since(begin); d > time.Second {
			t.Errorf("after %v", d)
		}
	})
	run("a signal in mid-call", func(t *testing.T, p *host.Pipe) {
		begin := time.Now()
		p.Send(host.Call("1", "sleep", `{"ms":500}`), host.Call("2", "sleep", `{"ms":3600000}`))
		synctest.Wait()
		p.Stop()
		host.Equal(t, "a call that ends in time", p.Next(), host.TextResult("1", "slept"))
		host.Equal(t, "one that does not", strings.Join(p.End(), "\n"), lost)
		if d := time.Since(begin); d > 3*time.Second {
			t.Errorf("after %v", d)
		}
	})
	run("a signal after the input", func(t *testing.T, p *host.Pipe) {
		p.Send(host.Call("2", "sleep", `{"ms":3600000}`))
		p.In.Close()
		time.Sleep(2 * time.Second)
		begin := time.Now()
		p.Stop()
		host.Equal(t, "the call", strings.Join(p.End(), "\n"), lost)
		if d := time.Since(begin); d > 3*time.Second {
			t.Errorf("after %v", d)
		}
	})
	run("a signal while a request waits for its turn", func(t *testing.T, p *host.Pipe) {
		p.Send(host.Call("2", "sleep", `{"ms":3600000}`))
		for i := range 255 {
			p.Send(host.Call(fmt.Sprint(1000+i), "sleep", `{"ms":3600000}`))
		}
		p.Send(host.Call("3", "echo", `{"text":"x"}`))
		synctest.Wait()
		begin := time.Now()
		p.Stop()
		host.Contains(t, "the calls", strings.Join(p.End(), "\n"), lost)
		if d := time.Since(begin); d > 3*time.Second {
			t.Errorf("after %v", d)
		}
	})
	run("nobody reads any more", func(t *testing.T, p *host.Pipe) {
		ended := make(chan error, 1)
		troupe.AddTool(p.Server, troupe.Tool{Name: "wait"}, func(ctx context.Context, _ *troupe.Call, _ struct{}) (string, error) {
			<-ctx.Done()
			ended <- context.Cause(ctx)
			return "", nil
		})
		p.Send(host.Call("1", "wait", `{}`), host.Call("2", "echo", `{"text":"x"}`))
		synctest.Wait() // otherwise the call may come too late to begin
		_ = p.Out.CloseWithError(io.ErrClosedPipe)
		if err := <-ended; !errors.Is(err, troupe.ErrSessionEnded) {
			t.Errorf("cause %v", err)
		}
		p.End()
	})
}

// TestStdioLivesOn checks that a session over stdio lives as long as its process.
func TestStdioLivesOn(t *testing.T) {
	when.Long(t, "hours of renewals")
	kit.Bubble(t, func(t *testing.T) {
		p := host.NewPipe(t, troupe.Options{Store: troupe.StoreOptions{SessionMax: 10 * time.Minute}})
		p.Initialize("2025-11-25")
		time.Sleep(20 * time.Minute)
		host.Equal(t, "echo", p.Ask(host.Call("2", "echo", `{"text":"x"}`)), host.TextResult("2", "x"))
		p.In.Close()
		p.End()
	})
}
