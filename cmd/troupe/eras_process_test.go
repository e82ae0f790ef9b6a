package main

import (
	"context"
	"encoding/json"
	"fmt"
	"net/http"
	"sync"
	"syscall"
	"testing"
)

// asker is a client of one era that calls the tool ask.
type asker interface {
	// begin calls the tool and returns when the question has come.
	begin(ctx context.Context, p *process, question string) error
	// resume goes on after the process was lost.
	resume(ctx context.Context, p *process) error
	// end answers the question, and returns the tool's response.
	end(ctx context.Context, p *process, answer string) (string, error)
}

// seated is an asker with a session. Its question comes on the stream of its call.
type seated struct {
	revision, session string
	stream            *exchange
	question, last    string // id of the question, raw, and id of the last event
}

func (s *seated) header(more ...string) []string {
	return append([]string{"Mcp-Session-Id", s.session, "MCP-Protocol-Version", s.revision}, more...)
}

// sit begins a session.
func sit(t *testing.T, p *process, revision string) *seated {
	t.Helper()
	x, err := p.post(t.Context(), `{"jsonrpc":"2.0","id":0,"method":"initialize","params":{"protocolVersion":"`+revision+`","capabilities":{"elicitation":{}},"clientInfo":{"name":"t","version":"1"}}}`)
	if err != nil {
		t.Fatal(err)
	}
	defer x.close()
	s := &seated{revision: revision, session: x.Header.Get("Mcp-Session-Id")}
	y, err := p.post(t.Context(), `{"jsonrpc":"2.0","method":"notifications/initialized"}`, s.header()...)
	if err != nil {
		t.Fatal(err)
	}
	defer y.close()
	if x.StatusCode != http.StatusOK || y.StatusCode != http.StatusAccepted {
		t.Fatalf("the session begins with %s and %s", x.Status, y.Status)
	}
	return s
}

// message is the part of a message that the askers read.
type message struct {
	ID     json.RawMessage
	Method string
	Params struct{ Message string }
	Result struct{ Content []struct{ Text string } }
}

// next reads the next message of the stream.
func (s *seated) next() (m message, err error) {
	for data := ""; data == ""; {
		if s.last, data, err = s.stream.event(); err == nil && data != "" {
			err = json.Unmarshal([]byte(data), &m)
		}
		if err != nil {
			return m, fmt.Errorf("%s: %w", s.stream.Status, err)
		}
	}
	return m, nil
}

func (s *seated) begin(ctx context.Context, p *process, question string) (err error) {
	if s.stream, err = p.post(ctx, `{"jsonrpc":"2.0","id":7,"method":"tools/call","params":{`+tool("ask", fmt.Sprintf(`{"question":%q}`, question))+`}}`, s.header()...); err != nil {
		return err
	}
	m, err := s.next()
	if err != nil || m.Method != "elicitation/create" || m.Params.Message != question {
		return fmt.Errorf("it is asked %+v (%v)", m, err)
	}
	s.question = string(m.ID)
	return nil
}

func (s *seated) resume(ctx context.Context, p *process) (err error) {
	s.stream.close()
	s.stream, err = p.send(ctx, "GET", "", s.header("Last-Event-ID", s.last)...)
	return err
}

func (s *seated) end(ctx context.Context, p *process, answer string) (string, error) {
	x, err := p.post(ctx, `{"jsonrpc":"2.0","id":`+s.question+`,"result":{"action":"accept","content":{"answer":"`+answer+`"}}}`, s.header()...)
	if err != nil {
		return "", err
	}
	x.close()
	defer s.stream.close()
	m, err := s.next()
	if err != nil || string(m.ID) != "7" || len(m.Result.Content) != 1 || x.StatusCode != http.StatusAccepted {
		return "", fmt.Errorf("the answer is taken with %s, and then comes %+v (%v)", x.Status, m, err)
	}
	return m.Result.Content[0].Text, nil
}

// standing is an asker without a session. Its question comes in a response, and it
// sends the call again.
type standing struct{ params, state string }

func (s *standing) call(ctx context.Context, p *process, more string) (a answered, err error) {
	x, err := p.sendAlone(ctx, "7", "tools/call", s.params+more)
	if err != nil {
		return a, err
	}
	defer x.close()
	if err := json.NewDecoder(x.rd).Decode(&a); err != nil {
		return a, fmt.Errorf("%s: %w", x.Status, err)
	}
	return a, nil
}

func (s *standing) begin(ctx context.Context, p *process, question string) error {
	s.params = tool("ask", fmt.Sprintf(`{"question":%q}`, question))
	a, err := s.call(ctx, p, "")
	var asked message
	if err == nil {
		err = json.Unmarshal(a.Result.InputRequests["elicit"], &asked)
	}
	if err != nil || asked.Params.Message != question {
		return fmt.Errorf("it is asked %+v (%v)", a, err)
	}
	s.state = a.Result.RequestState
	return nil
}

func (s *standing) resume(context.Context, *process) error { return nil }

func (s *standing) end(ctx context.Context, p *process, answer string) (string, error) {
	a, err := s.call(ctx, p, fmt.Sprintf(`,"requestState":%q,"inputResponses":{%s}`, s.state, form("elicit", "answer", answer)))
	return a.says(), err
}

// TestOneToolAsksClientsOfBothEras has one tool ask clients of three revisions at the
// same time: many times, and once with the process killed while they wait.
func TestOneToolAsksClientsOfBothEras(t *testing.T) {
	t.Parallel()
	args := []string{"--data", t.TempDir()}
	p := start(t, args...)
	askers := map[string]asker{"2025-06-18": sit(t, p, "2025-06-18"), "2025-11-25": sit(t, p, "2025-11-25"), "2026-07-28": &standing{}}
	all := func(what string, f func(revision string, a asker) error) {
		t.Helper()
		var wg sync.WaitGroup
		for revision, a := range askers {
			wg.Go(func() {
				if err := f(revision, a); err != nil {
					t.Errorf("%s, %s: %v", revision, what, err)
				}
			})
		}
		if wg.Wait(); t.Failed() {
			t.FailNow()
		}
	}
	ctx := t.Context()
	end := func(revision string, a asker) error {
		got, err := a.end(ctx, p, revision+" says so")
		if err == nil && got != revision+" says so" {
			err = fmt.Errorf("the tool says %q", got)
		}
		return err
	}
	all("20 times", func(revision string, a asker) error {
		for i := range 20 {
			if err := a.begin(ctx, p, fmt.Sprintf("%s %d?", revision, i)); err != nil {
				return err
			}
			if err := end(revision, a); err != nil {
				return err
			}
		}
		return nil
	})
	all("before the kill", func(revision string, a asker) error { return a.begin(ctx, p, revision+"?") })
	p.signal(t, syscall.SIGKILL)
	p.exit(t)
	p = start(t, args...)
	all("when it resumes", func(_ string, a asker) error { return a.resume(ctx, p) })
	all("after the kill", end)
}
