//go:build unix

// Command backend is an MCP server for tests of what hosts servers that somebody else wrote. It writes its JSON-RPC by
// itself, so that a test with it sees what a stranger's server would.
//
//	backend plain            a good server of 2025-11-25
//	backend modern           a good server of 2026-07-28
//	backend RUDENESS [ARG]   plain but for one thing, which most do when their tool rude is called: see rude.go
//	backend DEED MODE...     does what makes it hard to end, and is MODE then: see orphan.go
//
// What both good ones offer is in offers.go. A FILE that one waits for is made by the test when it is to go on: nothing here
// depends on time.
package main

import (
	"bufio"
	"encoding/json"
	"fmt"
	"os"
)

func main() {
	words := os.Args[1:]
	for len(words) > 0 && deeds[words[0]] != nil {
		words = deeds[words[0]](words[1:])
	}
	s := newServer()
	mode, arg := "plain", ""
	if len(words) > 0 {
		mode = words[0]
	}
	if len(words) > 1 {
		arg = words[1]
	}
	switch rude := rudenesses[mode]; {
	case mode == "plain":
	case mode == "modern":
		s.modern = true
	case rude != nil:
		rude(s, arg)
	default:
		fmt.Fprintf(os.Stderr, "backend: there is no mode %s\n", mode)
		os.Exit(2)
	}
	s.run()
}

// A message is one of JSON-RPC.
type message struct {
	ID     json.RawMessage `json:"id"`
	Method string          `json:"method"`
	Params json.RawMessage `json:"params"`
	Result json.RawMessage `json:"result"`
	Error  json.RawMessage `json:"error"`
}

// A server speaks over standard input and output. All that it has belongs to the goroutine of run: others hand it turns.
type server struct {
	modern bool
	turns  chan func()
	take   func(m message) // what is done with a message: handle, unless the mode is rude about it
	rude   func(c *call)   // the tool rude, nil for none
	listed []string        // further tools

	capabilities struct{ Elicitation, Sampling, Roots json.RawMessage } // of the client, of a session
	level        string                                                 // of log messages, of a session
	count        int                                                    // of the tool counter
	extra        bool                                                   // whether there is the tool extra
	touches      map[string]int                                         // of resources
	subscribed   map[string]bool                                        // resources of a session
	listeners    map[string]listener                                    // by the id of their requests, of 2026-07-28
	running      map[string]*call                                       // what waits, by the id of its request
	asked        map[string]func(m message)                             // what the client was asked, by the id of the question
	questions    int
}

func newServer() *server {
	s := &server{turns: make(chan func()), level: "debug", touches: map[string]int{}, subscribed: map[string]bool{},
		listeners: map[string]listener{}, running: map[string]*call{}, asked: map[string]func(message){}}
	s.take = s.handle
	return s
}

// run serves until the process ends.
func (s *server) run() {
	go s.read()
	for turn := range s.turns {
		turn()
	}
}

func (s *server) read() {
	in := bufio.NewReader(os.Stdin)
	for {
		line, err := in.ReadBytes('\n')
		if err != nil {
			if endsAtEOF {
				s.turns <- func() { os.Exit(0) } // behind what came before
			}
			block()
		}
		s.turns <- func() {
			var m message
			if json.Unmarshal(line, &m) == nil {
				s.take(m)
			}
		}
	}
}

// say writes a line.
func say(format string, args ...any) {
	write(fmt.Sprintf(format, args...) + "\n")
}

// write writes text as it is. Who does not listen any more has ended this process's work.
func write(text string) {
	if _, err := os.Stdout.WriteString(text); err != nil {
		os.Exit(1)
	}
}

// answer writes a result, whose members are given.
func (s *server) answer(id json.RawMessage, members string) {
	say(`{"jsonrpc":"2.0","id":%s,"result":{%s}}`, id, s.head(members))
}

// head puts in front of members what each result of 2026-07-28 has.
func (s *server) head(members string) string {
	switch {
	case !s.modern:
		return members
	case members == "":
		return `"resultType":"complete"`
	}
	return `"resultType":"complete",` + members
}

// answerCacheable is answer for a result that says how long it may be kept.
func (s *server) answerCacheable(id json.RawMessage, members string) {
	if s.modern {
		members = `"ttlMs":0,"cacheScope":"private",` + members
	}
	s.answer(id, members)
}

func refuse(id json.RawMessage, code int, text string) {
	say(`{"jsonrpc":"2.0","id":%s,"error":{"code":%d,"message":%s}}`, id, code, quote(text))
}

func notify(method, params string) {
	say(`{"jsonrpc":"2.0","method":"%s","params":{%s}}`, method, params)
}

// ask asks the client, and calls then with its answer.
func (s *server) ask(method, params string, then func(m message)) {
	s.questions++
	id := fmt.Sprintf(`"q%d"`, s.questions)
	s.asked[id] = then
	say(`{"jsonrpc":"2.0","id":%s,"method":"%s","params":{%s}}`, id, method, params)
}

// quote returns text as JSON.
func quote(text string) string {
	data, err := json.Marshal(text)
	if err != nil {
		panic(err) // no text is refused
	}
	return string(data)
}
