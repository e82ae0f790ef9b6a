package main

import (
	"fmt"
	"strings"
)

// question is a question that a tool asks its client: by which method, what it must say, and the answer.
type question struct{ method, says, answer string }

// newQuestion makes a call that asks one of what a server of 2024-11-05 can ask: elicitation came later.
func (g *sseUser) newQuestion() (*call, question) {
	word := strings.TrimSpace(longText(g.rng, 1))
	switch g.rng.IntN(3) {
	case 0:
		k := g.newCall(g.rng, "ping", `{}`)
		k.text = "the client is there"
		return k, question{"ping", "", `{}`}
	case 1:
		k := g.newCall(g.rng, "roots", `{}`)
		k.text = "file:///" + word + "\nfile:///tmp"
		return k, question{"roots/list", "", `{"roots":[{"uri":"file:///` + word + `","name":"` + word + `"},{"uri":"file:///tmp"}]}`}
	default:
		k := g.newCall(g.rng, "test_sampling", `{"prompt":"say `+word+`"}`)
		k.text = "LLM response: " + word
		return k, question{"sampling/createMessage", `"say ` + word + `"`, `{"role":"assistant","content":{"type":"text","text":"` + word + `"},"model":"m"}`}
	}
}

// awaitQuestion waits for the question of a call, and returns its id.
func (g *sseUser) awaitQuestion(q question) (string, error) {
	data, err := g.stream.next()
	if err != nil {
		return "", err
	}
	m := parse(data)
	if m.Method != q.method || len(m.ID) == 0 || !strings.Contains(data, q.says) {
		return "", fmt.Errorf("no %s that says %s came", q.method, q.says)
	}
	return string(m.ID), nil
}

// asks makes a call that asks, and answers at once or after another request.
func (g *sseUser) asks() {
	k, q := g.newQuestion()
	g.op("sse_question", 0, func() error {
		if err := g.send(k); err != nil {
			return err
		}
		question, err := g.awaitQuestion(q)
		if err != nil {
			return about(k, err)
		}
		if g.rng.IntN(2) == 0 {
			id := g.newID()
			if err := g.stream.expect(id, "ping", "", `{"jsonrpc":"2.0","id":`+id+`,"result":{}}`); err != nil {
				return err
			}
		}
		if err := g.stream.Answer(g.w.ctx, question, q.answer); err != nil {
			return err
		}
		events, err := g.stream.collect(answering(k.id))
		if err != nil {
			return err
		}
		return about(k, k.judge(events))
	})
}
