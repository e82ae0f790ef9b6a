//go:build unix

package main

import (
	"fmt"
	"os"
	"os/exec"
	"strconv"
	"strings"
	"syscall"
	"time"
)

// rudenesses are the modes of a server that is good but for one thing. Each is given the next argument.
var rudenesses = map[string]func(s *server, arg string){
	// At the handshake.
	"silent":       func(s *server, _ string) { s.take = func(message) {} },
	"late":         func(s *server, file string) { s.take = heldBack(s, file) },
	"dies-at-once": func(*server, string) { die(3) },
	"dies-once":    diesOnce,
	"asks-early": func(s *server, _ string) {
		s.take = func(m message) {
			if m.Method == "initialize" {
				s.ask("roots/list", "", func(message) {})
				s.ask("ping", "", func(message) {})
			}
			s.handle(m)
		}
	},
	"bad-version": func(s *server, _ string) {
		s.take = func(m message) {
			if m.Method == "initialize" {
				s.answer(m.ID, `"protocolVersion":"1999-01-01","capabilities":{},"serverInfo":`+info)
				return
			}
			s.handle(m)
		}
	},

	// In lists, and beside calls.
	"cursors": func(s *server, _ string) {
		s.take = func(m message) {
			if m.Method == "tools/list" {
				s.questions++
				s.answer(m.ID, fmt.Sprintf(`"tools":[{"name":"t%d","inputSchema":{"type":"object"}}],"nextCursor":"c%d"`, s.questions, s.questions))
				return
			}
			s.handle(m)
		}
	},
	"many-tools": func(s *server, arg string) {
		s.rude = func(c *call) { c.text("polite") }
		n, _ := strconv.Atoi(arg)
		for i := range n {
			s.listed = append(s.listed, fmt.Sprintf(`{"name":"tool-%d","inputSchema":{"type":"object"}}`, i))
		}
		s.take = func(m message) { // on one page
			if m.Method == "tools/list" {
				s.answer(m.ID, `"tools":[`+strings.Join(s.tools(), ",")+`]`)
				return
			}
			s.handle(m)
		}
	},
	"bad-schema": func(s *server, _ string) {
		s.listed = append(s.listed, `{"name":"bad","inputSchema":{"type":17,"properties":{"text":{"$ref":"#/nowhere"}},"pattern":"("}}`)
		s.rude = func(c *call) { c.text("polite") }
	},
	"list-changes": func(s *server, _ string) { // a thousand a second
		s.rude = func(c *call) {
			go func() {
				for range time.Tick(time.Millisecond) {
					say(`{"jsonrpc":"2.0","method":"notifications/tools/list_changed"}`)
				}
			}()
			c.text("polite")
		}
	},
	"floods-stdout": func(s *server, _ string) { s.rude = flood(os.Stdout) },
	"floods-stderr": func(s *server, _ string) { s.rude = flood(os.Stderr) },

	// In a call.
	"no-answer": whenCalled(func(*call) {}),
	"no-json":   whenCalled(func(c *call) { say("this is no JSON"); say("{neither is this}"); say("%s", c.answered(polite)) }),
	"half-lines": whenCalled(func(c *call) {
		text := c.answered(`{"content":[{"type":"text","text":"half"}]}`)
		say("%s", text[:len(text)/2])
		say("%s", text[len(text)/2:])
	}),
	"crlf":       whenCalled(func(c *call) { write(c.answered(polite) + "\r\n") }),
	"bom":        whenCalled(func(c *call) { say("\xef\xbb\xbf%s", c.answered(polite)) }),
	"bad-utf8":   whenCalled(func(c *call) { say("%s", c.answered("{\"content\":[{\"type\":\"text\",\"text\":\"\xff\xc0\"}]}")) }),
	"dies":       whenCalled(func(*call) { die(4) }),
	"twice":      whenCalled(func(c *call) { say("%s", c.answered(polite)); say("%s", c.answered(polite)) }),
	"unknown-id": whenCalled(func(c *call) { say(`{"jsonrpc":"2.0","id":987654321,"result":{}}`); say("%s", c.answered(polite)) }),
	"wrong-type": whenCalled(func(c *call) { say("%s", c.answered(`"ok"`)) }),
	"batch":      whenCalled(func(c *call) { say("[%s]", c.answered(polite)) }),
	"huge": whenCalled(func(c *call) {
		write(`{"jsonrpc":"2.0","id":` + string(c.id) + `,"result":{"content":[{"type":"text","text":"`)
		for range 100 {
			write(strings.Repeat("x", 1<<20))
		}
		say(`"}]}}`)
	}),
	"asks-late": whenCalled(func(c *call) {
		say("%s", c.answered(polite))
		c.s.ask("elicitation/create", `"message":"late","requestedSchema":{"type":"object","properties":{}}`, func(message) {})
	}),
	"asks-on": whenCalled(func(c *call) { // without an end: the next one when one is answered
		var again func(message)
		again = func(message) { c.s.ask("roots/list", "", again) }
		for range 100 {
			again(message{})
		}
		c.text("polite")
	}),
	"holds-stdout": whenCalled(func(*call) {
		start("stay") // with this process's files
		die(5)
	}),
	"deaf":  whenCalled(func(*call) { block() }), // it does not read any more
	"stops": whenCalled(func(*call) { _ = syscall.Kill(os.Getpid(), syscall.SIGSTOP) }),
}

// polite is the result of a call that is answered after all.
const polite = `{"content":[{"type":"text","text":"polite"}]}`

// whenCalled is a mode that is rude when its tool rude is called.
func whenCalled(do func(c *call)) func(*server, string) {
	return func(s *server, _ string) { s.rude = do }
}

func (c *call) answered(result string) string {
	return fmt.Sprintf(`{"jsonrpc":"2.0","id":%s,"result":%s}`, c.id, result)
}

// die ends the process, and says something before.
func die(code int) {
	fmt.Fprintln(os.Stderr, "I cannot go on")
	os.Exit(code)
}

// diesOnce ends the process unless a file is there, and makes it.
func diesOnce(_ *server, file string) {
	if _, err := os.Stat(file); err != nil {
		note(file)
		die(3)
	}
}

// heldBack handles nothing before a file is there, and then all of it.
func heldBack(s *server, file string) func(m message) {
	var waiting []message
	go func() {
		exists(file, nil)
		s.turns <- func() {
			s.take = s.handle
			for _, m := range waiting {
				s.handle(m)
			}
		}
	}()
	return func(m message) { waiting = append(waiting, m) }
}

// flood writes to a file for ever, beside the answers.
func flood(to *os.File) func(c *call) {
	return func(c *call) {
		line := []byte(strings.Repeat("flood ", 1000) + "\n")
		go func() {
			for {
				if _, err := to.Write(line); err != nil {
					os.Exit(1)
				}
			}
		}()
		c.text("polite")
	}
}

// start starts this program in another mode, with the same files.
func start(words ...string) *exec.Cmd {
	cmd := exec.Command(os.Args[0], words...)
	cmd.Stdin, cmd.Stdout, cmd.Stderr = os.Stdin, os.Stdout, os.Stderr
	if err := cmd.Start(); err != nil {
		die(1)
	}
	return cmd
}
