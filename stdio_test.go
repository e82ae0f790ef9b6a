package troupe_test

import (
	"bufio"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/troupe-run/troupe"
	"github.com/troupe-run/troupe/internal/testkit"
	"github.com/troupe-run/troupe/mcp"
)

// pipe is a server behind a pair of pipes, and its client.
type pipe struct {
	t     *testing.T
	rt    *troupe.Runtime
	srv   *troupe.Server
	in    *io.PipeWriter
	out   *io.PipeReader
	lines *bufio.Scanner
	stop  context.CancelFunc
	ended chan error
	asked sync.Map // methods of the requests of 2026-07-28, by their ids
}

func newPipe(t *testing.T, o troupe.Options) *pipe { return newPipeOf(t, o, nil) }

func newPipeOf(t *testing.T, o troupe.Options, so *troupe.ServerOptions) *pipe {
	t.Helper()
	rt, err := troupe.New(o)
	if err != nil {
		t.Fatal(err)
	}
	stdin, in := io.Pipe()
	out, stdout := io.Pipe()
	ctx, stop := context.WithCancel(t.Context())
	p := &pipe{t: t, rt: rt, srv: troupe.NewServer(mcp.Implementation{Name: "test", Version: "1"}, so), in: in, out: out,
		lines: bufio.NewScanner(out), stop: stop, ended: make(chan error, 1)}
	p.lines.Buffer(nil, 1<<20)
	addTestTools(p.srv)
	go func() {
		err := rt.ServePipe(ctx, p.srv, stdin, stdout)
		_ = stdout.Close()
		p.ended <- err
	}()
	t.Cleanup(func() { _ = in.Close(); _ = out.Close(); stop() })
	return p
}

func (p *pipe) send(lines ...string) {
	p.t.Helper()
	for _, line := range lines {
		p.note(line)
	}
	if _, err := io.WriteString(p.in, strings.Join(lines, "\n")+"\n"); err != nil {
		p.t.Fatal(err)
	}
}

func (p *pipe) next() string {
	p.t.Helper()
	if !p.lines.Scan() {
		p.t.Fatalf("the output ended: %v", p.lines.Err())
	}
	p.check(p.lines.Text())
	return p.lines.Text()
}

// note remembers what is asked in the era without sessions, or that an id is not.
func (p *pipe) note(line string) {
	var m struct {
		ID     json.RawMessage
		Method string
	}
	if json.Unmarshal([]byte(line), &m) == nil && m.ID != nil && m.Method != "" {
		p.asked.Delete(string(m.ID))
		if strings.Contains(line, `"io.modelcontextprotocol/protocolVersion"`) {
			p.asked.Store(string(m.ID), m.Method)
		}
	}
}

// check holds what belongs to such a request against the official schema.
func (p *pipe) check(line string) {
	p.t.Helper()
	var m struct{ ID json.RawMessage }
	if json.Unmarshal([]byte(line), &m) != nil {
		if elements(p.t, line) == nil {
			p.t.Errorf("an empty array")
		}
		return
	}
	method, asked := p.asked.Load(string(m.ID))
	if asked || strings.Contains(line, `"io.modelcontextprotocol/subscriptionId"`) {
		name, _ := method.(string)
		legal(p.t, line, name)
	}
}

func (p *pipe) ask(line string) string {
	p.t.Helper()
	p.send(line)
	return p.next()
}

func (p *pipe) initialize(revision string) {
	p.t.Helper()
	got := p.ask(`{"jsonrpc":"2.0","id":"init","method":"initialize","params":{"protocolVersion":"` + revision +
		`","capabilities":{"elicitation":{},"sampling":{},"roots":{}},"clientInfo":{"name":"t","version":"1"}}}`)
	contains(p.t, "initialize", got, `"protocolVersion":"`+revision+`"`)
	p.send(`{"jsonrpc":"2.0","method":"notifications/initialized"}`)
}

// end waits for the end of the server and of its output.
func (p *pipe) end() []string {
	p.t.Helper()
	var rest []string
	for p.lines.Scan() {
		p.check(p.lines.Text())
		rest = append(rest, p.lines.Text())
	}
	if err := <-p.ended; err != nil {
		p.t.Errorf("the server ended with %v", err)
	}
	return rest
}

func TestStdio(t *testing.T) {
	for _, revision := range troupe.Revisions()[:4] { // those with a handshake
		t.Run(revision, func(t *testing.T) {
			p := newPipe(t, troupe.Options{})
			equal(t, "early", p.ask(call("1", "echo", `{"text":"x"}`)), `{"jsonrpc":"2.0","id":1,"error":{"code":-32600,"message":"initialize first"}}`)
			equal(t, "no JSON", p.ask(`{"jsonrpc":`), `{"jsonrpc":"2.0","error":{"code":-32700,"message":"unexpected end of the message"}}`)
			p.initialize(revision)
			equal(t, "echo", p.ask(call("2", "echo", `{"text":"héllo\n你好"}`)), textResult("2", `héllo\n你好`))
			question := p.ask(call("3", "pingback", `{}`))
			equal(t, "the answer to a question", p.ask(answerTo(question, `{}`)), textResult("3", "pong"))
			p.send(call("4", "sleep", `{"ms":3600000}`), cancel("4"))
			equal(t, "after a cancel", p.ask(`{"jsonrpc":"2.0","id":5,"method":"ping"}`), `{"jsonrpc":"2.0","id":5,"result":{}}`)
			got := p.ask(batch(call("6", "echo", `{"text":"six"}`)))
			want := batch(textResult("6", "six"))
			if revision > "2025-03-26" {
				want = `{"jsonrpc":"2.0","error":{"code":-32600,"message":"revision ` + revision + ` has no batches: send one message at a time"}}`
			}
			equal(t, "batch", got, want)
			p.in.Close()
			if rest := p.end(); len(rest) != 0 {
				t.Errorf("after the end of the input: %q", rest)
			}
		})
	}
}

// The answers to a batch are one line, an array, also of those that are given up when the input ends.
func TestStdioBatch(t *testing.T) {
	testkit.Bubble(t, func(t *testing.T) {
		p := newPipe(t, troupe.Options{DrainWait: 20 * time.Second})
		p.initialize("2025-03-26")
		equal(t, "two calls and a ping", p.ask(batch(call("1", "sleep", `{"ms":100}`), call("2", "sleep", `{"ms":50}`), `{"jsonrpc":"2.0","id":"p","method":"ping"}`)),
			batch(`{"jsonrpc":"2.0","id":"p","result":{}}`, textResult("2", "slept"), textResult("1", "slept")))
		p.send(batch(call("3", "sleep", `{"ms":3600000}`), call("4", "sleep", `{"ms":100}`)))
		p.in.Close()
		equal(t, "given up", strings.Join(p.end(), "\n"), batch(textResult("4", "slept"),
			`{"jsonrpc":"2.0","id":3,"error":{"code":-32010,"message":"the node running this call was lost; whether it took effect is unknown"}}`))
	})
}

func TestStdioAnswersTenThousandCallsSentAtOnce(t *testing.T) {
	p := newPipe(t, troupe.Options{})
	p.initialize("2025-11-25")
	const n = 10000
	go func() {
		w := bufio.NewWriter(p.in)
		for i := range n {
			_, _ = w.WriteString(call(fmt.Sprint(i), "echo", fmt.Sprintf(`{"text":"number %d"}`, i)) + "\n")
		}
		_ = w.Flush()
		_ = p.in.Close() // in mid-call: what was sent is answered
	}()
	seen := make(map[string]bool, n)
	for _, line := range p.end() {
		if seen[line] {
			t.Errorf("twice: %s", line)
		}
		seen[line] = true
	}
	for i := range n {
		if want := textResult(fmt.Sprint(i), fmt.Sprintf("number %d", i)); !seen[want] {
			t.Fatalf("no answer %s among %d", want, len(seen))
		}
	}
	if len(seen) != n {
		t.Errorf("%d answers", len(seen))
	}
}

func TestStdioEnds(t *testing.T) {
	run := func(name string, f func(t *testing.T, p *pipe)) {
		t.Run(name, func(t *testing.T) {
			testkit.Bubble(t, func(t *testing.T) {
				p := newPipe(t, troupe.Options{DrainWait: 20 * time.Second})
				p.initialize("2025-11-25")
				f(t, p)
			})
		})
	}
	lost := `{"jsonrpc":"2.0","id":2,"error":{"code":-32010,"message":"the node running this call was lost; whether it took effect is unknown"}}`
	run("input ends in mid-call", func(t *testing.T, p *pipe) {
		begin := time.Now()
		p.send(call("1", "sleep", `{"ms":5000}`), call("2", "sleep", `{"ms":3600000}`))
		p.in.Close()
		equal(t, "a call that ends in time", p.next(), textResult("1", "slept"))
		equal(t, "one that does not", strings.Join(p.end(), "\n"), lost)
		if d := time.Since(begin); d < 20*time.Second || d > 22*time.Second {
			t.Errorf("after %v", d)
		}
	})
	run("a question nobody can answer any more", func(t *testing.T, p *pipe) {
		begin := time.Now()
		p.ask(call("1", "ask", `{"question":"who?"}`))
		p.in.Close()
		contains(t, "the call", strings.Join(p.end(), "\n"), `"isError":true`)
		if d := time.Since(begin); d > time.Second {
			t.Errorf("after %v", d)
		}
	})
	run("a signal in mid-call", func(t *testing.T, p *pipe) {
		begin := time.Now()
		p.send(call("1", "sleep", `{"ms":500}`), call("2", "sleep", `{"ms":3600000}`))
		synctest.Wait()
		p.stop()
		equal(t, "a call that ends in time", p.next(), textResult("1", "slept"))
		equal(t, "one that does not", strings.Join(p.end(), "\n"), lost)
		if d := time.Since(begin); d > 3*time.Second {
			t.Errorf("after %v", d)
		}
	})
	run("a signal after the input", func(t *testing.T, p *pipe) {
		p.send(call("2", "sleep", `{"ms":3600000}`))
		p.in.Close()
		time.Sleep(2 * time.Second)
		begin := time.Now()
		p.stop()
		equal(t, "the call", strings.Join(p.end(), "\n"), lost)
		if d := time.Since(begin); d > 3*time.Second {
			t.Errorf("after %v", d)
		}
	})
	run("a signal while a request waits for its turn", func(t *testing.T, p *pipe) {
		p.send(call("2", "sleep", `{"ms":3600000}`))
		for i := range 255 {
			p.send(call(fmt.Sprint(1000+i), "sleep", `{"ms":3600000}`))
		}
		p.send(call("3", "echo", `{"text":"x"}`))
		synctest.Wait()
		begin := time.Now()
		p.stop()
		contains(t, "the calls", strings.Join(p.end(), "\n"), lost)
		if d := time.Since(begin); d > 3*time.Second {
			t.Errorf("after %v", d)
		}
	})
	run("nobody reads any more", func(t *testing.T, p *pipe) {
		ended := make(chan error, 1)
		troupe.AddTool(p.srv, troupe.Tool{Name: "wait"}, func(ctx context.Context, _ *troupe.Call, _ struct{}) (string, error) {
			<-ctx.Done()
			ended <- context.Cause(ctx)
			return "", nil
		})
		p.send(call("1", "wait", `{}`), call("2", "echo", `{"text":"x"}`))
		synctest.Wait() // else the call may come too late to be begun
		_ = p.out.CloseWithError(io.ErrClosedPipe)
		if err := <-ended; !errors.Is(err, troupe.ErrSessionEnded) {
			t.Errorf("cause %v", err)
		}
		p.end()
	})
}

// A session over stdio is as old as its process.
func TestStdioLivesOn(t *testing.T) {
	testkit.Bubble(t, func(t *testing.T) {
		p := newPipe(t, troupe.Options{SessionMax: 10 * time.Minute})
		p.initialize("2025-11-25")
		time.Sleep(20 * time.Minute)
		equal(t, "echo", p.ask(call("2", "echo", `{"text":"x"}`)), textResult("2", "x"))
		p.in.Close()
		p.end()
	})
}
