package histories

import (
	"context"
	"encoding/json"
	"fmt"
	"strings"
	"time"

	"github.com/troupe-run/troupe"
	"github.com/troupe-run/troupe/mcp"
	"github.com/troupe-run/troupe/test/spec/host"
)

type args struct {
	Request string `json:"request"`
}

// outcome is the result of a call: the answers that its handler got, and how much it sent.
type outcome struct {
	Request  string            `json:"request"`
	Attempt  int               `json:"attempt"`
	Run      int               `json:"run"`
	Answers  map[string]string `json:"answers"` // by question
	Logs     int               `json:"logs"`
	Progress int               `json:"progress"`
}

// said is a message of a handler, as it is in the data of a log message.
type said struct {
	Request string `json:"request"`
	What    string `json:"what"`
	Run     int    `json:"run"`
}

// script is one run of a handler.
type script struct {
	ctx  context.Context
	call *troupe.Call
	run  *run
	out  outcome
}

// serve does what the plan says for a call.
func (p *process) serve(ctx context.Context, call *troupe.Call, in args) (string, error) {
	j := p.w.judge
	name, _, _ := strings.Cut(in.Request, "/")
	po := p.w.posts[name]
	if po == nil {
		j.Fault("a handler runs for %q, which nobody sent", in.Request)
		return "", troupe.ErrNotFound
	}
	s := &script{ctx: ctx, call: call, run: j.begin(in.Request, call.Attempt(), p)}
	s.out = outcome{Request: in.Request, Attempt: call.Attempt(), Run: s.run.serial, Answers: map[string]string{}}
	var failed error
	for i, st := range po.Steps {
		if failed = s.do(i, st); failed != nil {
			break
		}
	}
	if cause := context.Cause(ctx); cause != nil {
		failed = cause
	}
	if failed != nil {
		j.failed(s.run, failed)
		return "", failed
	}
	text, err := json.Marshal(s.out)
	if err != nil {
		panic(err)
	}
	j.returned(s.run, s.out, string(text))
	return string(text), nil
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
	wait := time.Duration(st.For)
	switch st.Do {
	case "sleep":
		return s.sleep(wait)
	case "log":
		for range st.N {
			s.out.Logs++
			what := fmt.Sprintf("m%d", s.out.Logs)
			s.run.j.emits(s.run, what)
			if err := s.call.Log(s.ctx, mcp.LevelError, "history", said{s.out.Request, what, s.run.serial}); err != nil {
				return err
			}
			if err := s.sleep(wait); err != nil {
				return err
			}
		}
	case "progress":
		for range st.N {
			s.out.Progress++
			s.run.j.emits(s.run, fmt.Sprintf("p%d", s.out.Progress))
			if err := s.call.Progress(s.ctx, float64(s.out.Progress), 0, s.out.Request); err != nil {
				return err
			}
			if err := s.sleep(wait); err != nil {
				return err
			}
		}
	case "tell":
		for k := range st.N {
			what := fmt.Sprintf("%s:%d told %d.%d", s.out.Request, s.run.serial, i, k)
			began := time.Now()
			err := s.call.Peer().Log(s.ctx, mcp.LevelError, "told", said{What: what})
			s.run.j.told(s.run, what, began, err)
			if err := s.sleep(wait); err != nil {
				return err
			}
		}
	case "ask":
		return s.ask(i, st)
	case "step":
		for k := range st.N {
			name := fmt.Sprintf("%d.%d", i, k)
			token, err := troupe.Step(s.ctx, s.call, name, func(ctx context.Context) (string, error) {
				s.run.j.does(s.run, name)
				return fmt.Sprintf("%s by %d", name, s.run.serial), s.sleep(wait)
			})
			if err != nil {
				return err
			}
			s.run.j.did(s.run, name, token)
		}
	case "close":
		s.call.Disconnect()
	}
	return nil
}

// ask asks the questions of a step, all at once.
func (s *script) ask(i int, st step) error {
	var all []troupe.Question
	var keys []string
	for k := range st.N {
		key := fmt.Sprintf("%d.%d", i, k)
		keys = append(keys, key)
		all = append(all, troupe.Elicit(key, s.out.Request+"?"+key, host.Form))
	}
	answers, err := s.call.Ask(s.ctx, all...)
	if err != nil {
		return err
	}
	for _, key := range keys {
		r, err := answers.Elicited(key)
		if err != nil {
			return err
		}
		var in struct{ Answer string }
		if err := json.Unmarshal(r.Content, &in); err != nil {
			return err
		}
		s.out.Answers[key] = in.Answer
		s.run.j.takes(s.run, s.out.Request+"?"+key, in.Answer)
	}
	return nil
}
