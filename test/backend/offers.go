//go:build unix

package main

import (
	"encoding/json"
	"fmt"
	"os"
	"slices"
	"strings"
	"time"
)

var prompts = []string{`{"name":"greet","title":"A greeting","description":"Asks for a greeting.","arguments":[{"name":"name","required":true}]}`}

var resources = []string{
	`{"uri":"test://note","name":"note","mimeType":"text/plain","annotations":{"priority":0.50}}`,
	`{"uri":"test://blob","name":"blob","mimeType":"application/octet-stream","size":3}`,
}

var templates = []string{`{"uriTemplate":"test://item/{id}","name":"item"}`}

// arguments are those of all tools.
type arguments struct {
	A, B                    float64
	N                       int
	Text, Name, File, Level string
}

// A tool is listed as it stands there. needs says whether it is there for a client.
type tool struct {
	name, listed string
	needs        func(s *server) bool
	run          func(s *server, c *call)
}

const noArguments = `"inputSchema":{"type":"object"}`

func always(*server) bool { return true }

// offered are the tools.
var offered = []tool{
	// Numbers and members that nobody knows must arrive as they are.
	{"echo", `"description":"Says the text again.","inputSchema":{"type":"object","properties":{"text":{"type":"string","default":1.0}},"required":["text"]},` +
		`"annotations":{"readOnlyHint":true},"x-unknown":{"kept":1e2}`, always, func(_ *server, c *call) { c.text(c.args.Text) }},
	{"add", `"inputSchema":{"type":"object","properties":{"a":{"type":"number"},"b":{"type":"number"}},"required":["a","b"]},` +
		`"outputSchema":{"type":"object","properties":{"sum":{"type":"number"}},"required":["sum"]},"annotations":{"readOnlyHint":true}`, always, func(_ *server, c *call) {
		c.end(fmt.Sprintf(`"content":[{"type":"text","text":"%g"}],"structuredContent":{"sum":%g}`, c.args.A+c.args.B, c.args.A+c.args.B))
	}},
	{"counter", `"description":"Counts its calls, and says which process has counted, and what waits in it.",` + noArguments, always, func(s *server, c *call) {
		s.count++
		c.text(fmt.Sprintf(`{"pid":%d,"n":%d,"waiting":%d}`, os.Getpid(), s.count, len(s.running)))
	}},
	{"fail", noArguments, always, func(_ *server, c *call) { c.end(`"content":[{"type":"text","text":"no"}],"isError":true`) }},
	{"get-env", `"description":"Says its environment.",` + noArguments, always, func(_ *server, c *call) { c.text(strings.Join(os.Environ(), "\n")) }},
	{"arguments", `"description":"Says its arguments.",` + noArguments, always, func(_ *server, c *call) { c.text(strings.Join(os.Args[1:], " ")) }},
	{"big", `"description":"Says n bytes.",` + noArguments, always, func(_ *server, c *call) { c.text(strings.Repeat("x", c.args.N)) }},
	// What waits reports progress 1, and 2 when the file is there; it notes each run in a file beside it.
	{"hold", `"description":"Waits for a file.",` + noArguments, always, (*server).hold},
	{"look", `"description":"Waits for a file, and changes nothing.",` + noArguments + `,"annotations":{"readOnlyHint":true}`, always, (*server).hold},
	{"log", `"description":"Logs a text at a level.",` + noArguments, always, func(s *server, c *call) {
		if levels := []string{"debug", "info", "notice", "warning", "error"}; s.level != "" && slices.Index(levels, c.args.Level) >= slices.Index(levels, s.level) {
			notify("notifications/message", fmt.Sprintf(`"level":%s,"logger":"backend","data":%s`, quote(c.args.Level), quote(c.args.Text)))
		}
		c.text("logged")
	}},
	{"touch", `"description":"Changes the note.",` + noArguments, always, func(s *server, c *call) { s.touch("test://note"); c.text("touched") }},
	{"change", `"description":"Adds the tool extra, or takes it away.",` + noArguments, always, func(s *server, c *call) { s.change(); c.text("changed") }},
	{"stderr", `"description":"Writes a text to its standard error.",` + noArguments, always, func(_ *server, c *call) {
		fmt.Fprintln(os.Stderr, c.args.Text)
		c.text("written")
	}},
	{"exit", `"description":"Ends the process with status n.",` + noArguments, always, func(_ *server, c *call) {
		fmt.Fprintln(os.Stderr, "I was told to end")
		os.Exit(c.args.N)
	}},
	{"extra", noArguments, func(s *server) bool { return s.extra }, func(_ *server, c *call) { c.text("extra") }},
	{"ask", `"description":"Asks a question, n times.",` + noArguments + `,"annotations":{"readOnlyHint":true}`, func(s *server) bool { return s.capabilities.Elicitation != nil }, (*server).elicit},
	{"sample", noArguments, func(s *server) bool { return s.capabilities.Sampling != nil }, func(s *server, c *call) {
		s.askOnce(c, "sampling/createMessage", fmt.Sprintf(`"messages":[{"role":"user","content":{"type":"text","text":%s}}],"maxTokens":10`, quote(c.args.Text)))
	}},
	// It asks whatever the client has declared: roots are answered by whoever hosts.
	{"roots", noArguments, func(s *server) bool { return !s.modern || s.capabilities.Roots != nil }, func(s *server, c *call) { s.askOnce(c, "roots/list", "") }},
	{"rude", noArguments, func(s *server) bool { return s.rude != nil }, func(s *server, c *call) { s.rude(c) }},
}

// tools returns the list of a client.
func (s *server) tools() (all []string) {
	for _, t := range offered {
		if t.needs(s) {
			all = append(all, fmt.Sprintf(`{"name":"%s",%s}`, t.name, t.listed))
		}
	}
	return append(all, s.listed...)
}

// A call is one of a tool.
type call struct {
	s         *server
	id        json.RawMessage
	params    params
	args      arguments
	cancelled chan struct{}
}

func (s *server) call(m message, p params) {
	for _, t := range offered {
		if t.name == p.Name && t.needs(s) {
			t.run(s, &call{s: s, id: m.ID, params: p, args: p.Arguments, cancelled: make(chan struct{})})
			return
		}
	}
	refuse(m.ID, -32602, "there is no tool "+p.Name)
}

func (c *call) end(members string) { c.s.answer(c.id, members) }

func (c *call) text(text string) { c.end(`"content":[{"type":"text","text":` + quote(text) + `}]`) }

func (c *call) progress(n int) {
	if token := c.params.Meta.ProgressToken; token != nil {
		notify("notifications/progress", fmt.Sprintf(`"progressToken":%s,"progress":%d,"total":2,"message":"step %d"`, token, n, n))
	}
}

// hold waits until the file of a call is there. A call that is cancelled meanwhile has no answer.
func (s *server) hold(c *call) {
	if c.args.File != "" {
		note(c.args.File + ".runs")
	}
	s.running[string(c.id)] = c
	c.progress(1)
	go func() {
		if !exists(c.args.File, c.cancelled) {
			return
		}
		s.turns <- func() {
			if s.running[string(c.id)] == c { // it is not cancelled
				delete(s.running, string(c.id))
				c.progress(2)
				c.text("held")
			}
		}
	}()
}

// note adds a line to a file, if its directory is there.
func note(path string) {
	f, err := os.OpenFile(path, os.O_CREATE|os.O_APPEND|os.O_WRONLY, 0o600)
	if err != nil {
		return
	}
	_, _ = fmt.Fprintln(f, os.Getpid())
	_ = f.Close()
}

// exists waits until a file is there, and reports that it is, or false if nobody waits for it any more.
func exists(path string, given <-chan struct{}) bool {
	for {
		if _, err := os.Stat(path); err == nil {
			return true
		}
		select {
		case <-given:
			return false
		case <-time.After(2 * time.Millisecond):
		}
	}
}

// elicit asks a question n times, one after the other, and ends with the answers.
func (s *server) elicit(c *call) {
	question := func(round int) string {
		return fmt.Sprintf(`"message":%s,"requestedSchema":{"type":"object","properties":{"answer":{"type":"string"}},"required":["answer"]}`, quote(fmt.Sprintf("%s %d", c.args.Text, round)))
	}
	n := max(c.args.N, 1)
	if s.modern {
		answers := strings.Fields(c.params.RequestState)
		for _, r := range c.params.InputResponses {
			answers = append(answers, answerOf(r))
		}
		if len(answers) == n {
			c.text(strings.Join(answers, " "))
			return
		}
		say(`{"jsonrpc":"2.0","id":%s,"result":{"resultType":"input_required","inputRequests":{"k%d":{"method":"elicitation/create","params":{%s}}},"requestState":%s}}`,
			c.id, len(answers)+1, question(len(answers)+1), quote(strings.Join(answers, " ")))
		return
	}
	var answers []string
	var next func()
	next = func() {
		if len(answers) == n {
			c.text(strings.Join(answers, " "))
			return
		}
		s.ask("elicitation/create", question(len(answers)+1), func(m message) {
			answers = append(answers, answerOf(m.Result))
			next()
		})
	}
	next()
}

// answerOf is what a client has answered: a word, or its action.
func answerOf(result json.RawMessage) string {
	var r struct {
		Action  string
		Content struct{ Answer string }
	}
	if json.Unmarshal(result, &r) != nil {
		return "error"
	}
	if r.Action != "accept" {
		return r.Action
	}
	return r.Content.Answer
}

// askOnce asks one question, and ends with what it is answered with, as text.
func (s *server) askOnce(c *call, method, params string) {
	if s.modern {
		if r, ok := c.params.InputResponses["q"]; ok {
			c.text(string(r))
			return
		}
		say(`{"jsonrpc":"2.0","id":%s,"result":{"resultType":"input_required","inputRequests":{"q":{"method":"%s","params":{%s}}},"requestState":"s"}}`, c.id, method, params)
		return
	}
	s.ask(method, params, func(m message) {
		if m.Error != nil {
			c.text("error " + string(m.Error))
			return
		}
		c.text(string(m.Result))
	})
}
