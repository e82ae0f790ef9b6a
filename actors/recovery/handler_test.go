package recovery

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"strconv"
	"strings"
	"time"

	"github.com/troupe-run/troupe/actors"
	"github.com/troupe-run/troupe/codec"
	"github.com/troupe-run/troupe/mcp"
)

// handler does what the plan says for a call.
type handler struct{ p *process }

var _ actors.Handler = (*handler)(nil)

func (h *handler) Initialize(_ context.Context, params []byte) (actors.Settled, []byte, *mcp.Error) {
	version, _ := codec.Str(codec.Field(params, "protocolVersion"))
	return actors.Settled{Revision: version, Client: []byte("{}"), Capabilities: []byte("{}")}, []byte("{}"), nil
}

func (*handler) Observe(*actors.Peer, actors.Origin, *codec.Message) func(mcp.Revision, *mcp.Error) {
	return nil
}
func (h *handler) Notified(*actors.Peer, string, []byte) {}
func (h *handler) Safe(_, name []byte) bool              { return strings.Contains(string(name), "safe") }
func (h *handler) MayAsk(_, _ []byte) bool               { return true }
func (h *handler) Opened(*actors.Peer, bool)             {}

func (h *handler) Listening(context.Context, *actors.Call) (actors.Listening, *mcp.Error) {
	return actors.Listening{}, &mcp.Error{Code: mcp.CodeMethodNotFound}
}

// outcome is the result of a call: the answers that its handler got.
type outcome struct {
	Request string            `json:"request"`
	Attempt int               `json:"attempt"`
	Answers map[string]string `json:"answers"` // by question
}

// response is a client's answer to a question.
type response struct {
	To  string `json:"to"` // the question
	N   int    `json:"n"`  // no two answers have the same n
	Pad string `json:"pad,omitempty"`
}

// question names a question of a call: its step, and its place there.
func question(request string, step, place int) string {
	return fmt.Sprintf("%s?%d.%d", request, step, place)
}

func (h *handler) Serve(ctx context.Context, c *actors.Call, dst []byte) ([]byte, *mcp.Error) {
	request, _ := codec.Str(c.Message().ID)
	w := h.p.w
	run := w.judge.begin(request, c.Attempt(), h.p)
	s := &script{ctx: ctx, c: c, run: run, out: outcome{Request: request, Attempt: c.Attempt(), Answers: map[string]string{}}}
	name, _, _ := strings.Cut(request, "/")
	var failed error
	for i, st := range w.calls[name].Steps {
		if failed = s.do(i, st); failed != nil {
			break
		}
	}
	if cause := context.Cause(ctx); cause != nil {
		failed = cause
	}
	if failed != nil {
		w.judge.failed(run, failed)
		return dst, &mcp.Error{Code: -32000, Message: failed.Error()}
	}
	data, err := json.Marshal(s.out)
	if err != nil {
		panic(err)
	}
	w.judge.returned(run, string(data))
	return append(dst, data...), nil
}

// script is one run of a handler.
type script struct {
	ctx  context.Context
	c    *actors.Call
	run  *run
	out  outcome
	sent int
	high float64
}

func (s *script) sleep(d time.Duration) error {
	t := time.NewTimer(d)
	defer t.Stop()
	select {
	case <-t.C:
		return nil
	case <-s.ctx.Done():
		return context.Cause(s.ctx)
	}
}

func (s *script) do(i int, st step) error {
	j := s.run.j
	switch st.Do {
	case "sleep":
		return s.sleep(time.Duration(st.For))
	case "notify":
		for range st.N {
			s.sent++
			what := fmt.Sprintf("m%d", s.sent)
			j.emits(s.run, what, st.Size)
			params := fmt.Sprintf(`{"request":%q,"what":%q,"run":%d,"pad":%q}`, s.out.Request, what, s.run.serial, strings.Repeat("x", st.Size))
			if err := s.c.Notify(s.ctx, "notifications/message", []byte(params)); err != nil {
				return err
			}
			if err := s.sleep(time.Duration(st.For)); err != nil {
				return err
			}
		}
	case "progress":
		for range st.N {
			s.high++
			what := fmt.Sprintf("p%d", int(s.high))
			j.emits(s.run, what, 0)
			params := fmt.Sprintf(`{"progressToken":%q,"request":%q,"what":%q,"run":%d,"progress":%d}`, s.out.Request, s.out.Request, what, s.run.serial, int(s.high))
			if err := s.c.Progress(s.ctx, s.high, []byte(params)); err != nil {
				return err
			}
			if err := s.sleep(time.Duration(st.For)); err != nil {
				return err
			}
		}
	case "tell":
		for range st.N {
			s.sent++
			what, began := fmt.Sprintf("told by run %d: %d", s.run.serial, s.sent), time.Now()
			params := fmt.Sprintf(`{"request":%q,"what":%q}`, s.out.Request, what)
			err := s.c.Peer().Notify(s.ctx, "notifications/message", []byte(params))
			client, _ := strconv.Atoi(s.out.Request[:strings.IndexByte(s.out.Request, '.')])
			j.told(client, s.out.Request+" "+what, began, err)
			if err := s.sleep(time.Duration(st.For)); err != nil {
				return err
			}
		}
	case "close":
		s.c.CloseConnection()
	case "ask":
		return s.ask(i, st)
	}
	return nil
}

func (s *script) ask(i int, st step) error {
	j := s.run.j
	var qs []actors.Question
	for k, a := range st.Asks {
		what := question(s.out.Request, i, k)
		j.emits(s.run, what, 0)
		qs = append(qs, actors.Question{Key: a.Key, Method: "elicitation/create", Params: fmt.Appendf(nil, `{"request":%q,"what":%q,"run":%d}`, s.out.Request, what, s.run.serial)})
	}
	began := time.Now()
	answers, err := s.c.Ask(s.ctx, qs)
	if errors.Is(err, actors.ErrNoAnswer) {
		var whats []string
		for k := range st.Asks {
			whats = append(whats, question(s.out.Request, i, k))
			s.out.Answers[whats[k]] = "none"
		}
		j.unanswered(s.run, began, whats)
		j.emits(s.run, "withdrawal", 0)
		return nil
	}
	if err != nil {
		return err
	}
	for k, a := range answers {
		what := question(s.out.Request, i, k)
		got := string(a.Result)
		if a.Err != nil {
			got = a.Err.Message
		}
		j.takes(s.run, what, got)
		if len(got) > 200 {
			got = got[:60]
		}
		s.out.Answers[what] = got
	}
	return nil
}
