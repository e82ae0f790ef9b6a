package host

import (
	"bufio"
	"context"
	"encoding/json"
	"io"
	"strings"
	"sync"
	"testing"

	"github.com/troupe-run/troupe"
	"github.com/troupe-run/troupe/mcp"
)

// Pipe is a server behind a pair of pipes, and its client.
type Pipe struct {
	t       *testing.T
	Runtime *troupe.Runtime
	Server  *troupe.Server
	In      *io.PipeWriter // its standard input
	Out     *io.PipeReader // its standard output
	lines   *bufio.Scanner
	Stop    context.CancelFunc // ends the context of ServePipe
	ended   chan error
	asked   sync.Map // methods of the requests of 2026-07-28, by their ids
}

// NewPipe starts a runtime that serves the test tools to the client. It ends with the test.
func NewPipe(t *testing.T, o troupe.Options) *Pipe { return newPipeOf(t, o, nil) }

func newPipeOf(t *testing.T, o troupe.Options, so *troupe.ServerOptions) *Pipe {
	t.Helper()
	rt, err := troupe.New(o)
	if err != nil {
		t.Fatal(err)
	}
	stdin, in := io.Pipe()
	out, stdout := io.Pipe()
	ctx, stop := context.WithCancel(t.Context())
	p := &Pipe{t: t, Runtime: rt, Server: troupe.NewServer(mcp.Implementation{Name: "test", Version: "1"}, so), In: in, Out: out,
		lines: bufio.NewScanner(out), Stop: stop, ended: make(chan error, 1)}
	p.lines.Buffer(nil, 1<<20)
	AddTestTools(p.Server)
	go func() {
		err := rt.ServePipe(ctx, p.Server, stdin, stdout)
		_ = stdout.Close()
		p.ended <- err
	}()
	t.Cleanup(func() { _ = in.Close(); _ = out.Close(); stop() })
	return p
}

// Send writes lines.
func (p *Pipe) Send(lines ...string) {
	p.t.Helper()
	for _, line := range lines {
		p.note(line)
	}
	if _, err := io.WriteString(p.In, strings.Join(lines, "\n")+"\n"); err != nil {
		p.t.Fatal(err)
	}
}

// Next reads a line.
func (p *Pipe) Next() string {
	p.t.Helper()
	if !p.lines.Scan() {
		p.t.Fatalf("the output ended: %v", p.lines.Err())
	}
	p.check(p.lines.Text())
	return p.lines.Text()
}

// note remembers the method of a request without a session, by its id, or that the id has another request.
func (p *Pipe) note(line string) {
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

// check checks a response to such a request, or a message of it, against the official schema.
func (p *Pipe) check(line string) {
	p.t.Helper()
	var m struct{ ID json.RawMessage }
	if json.Unmarshal([]byte(line), &m) != nil {
		if Elements(p.t, line) == nil {
			p.t.Errorf("an empty array")
		}
		return
	}
	method, asked := p.asked.Load(string(m.ID))
	if asked || strings.Contains(line, `"io.modelcontextprotocol/subscriptionId"`) {
		name, _ := method.(string)
		Legal(p.t, line, name)
	}
}

// Ask writes a line and reads the next one, which need not be the response.
func (p *Pipe) Ask(line string) string {
	p.t.Helper()
	p.Send(line)
	return p.Next()
}

// Initialize makes the pipe a session of a revision.
func (p *Pipe) Initialize(revision string) {
	p.t.Helper()
	got := p.Ask(`{"jsonrpc":"2.0","id":"init","method":"initialize","params":{"protocolVersion":"` + revision +
		`","capabilities":{"elicitation":{},"sampling":{},"roots":{}},"clientInfo":{"name":"t","version":"1"}}}`)
	Contains(p.t, "initialize", got, `"protocolVersion":"`+revision+`"`)
	p.Send(`{"jsonrpc":"2.0","method":"notifications/initialized"}`)
}

// End waits for the end of the server and of its output.
func (p *Pipe) End() []string {
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

// StatelessPipe sends requests of 2026-07-28 over a pipe, and checks what comes against the schema.
type StatelessPipe struct {
	*Pipe
	M *Stateless
}

// NewStatelessPipe is [NewPipe] for requests of 2026-07-28.
func NewStatelessPipe(t *testing.T, o troupe.Options, so *troupe.ServerOptions) *StatelessPipe {
	return &StatelessPipe{newPipeOf(t, o, so), &Stateless{T: t, Capabilities: EveryCapability}}
}

// Result sends a request and returns its result or error.
func (p *StatelessPipe) Result(method, params, meta string) string {
	p.t.Helper()
	line := p.Ask(p.M.Body("1", method, params, meta))
	Legal(p.t, line, method)
	for _, member := range []string{"result", "error"} {
		if rest, ok := strings.CutPrefix(line, `{"jsonrpc":"2.0","id":1,"`+member+`":`); ok {
			return strings.TrimSuffix(rest, "}")
		}
	}
	return line
}
