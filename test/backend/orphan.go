//go:build unix

package main

import (
	"io"
	"os"
	"os/exec"
	"os/signal"
	"syscall"
	"time"
)

// deeds are what makes a server hard to end. Each is given the words behind it, and returns the mode that is served here.
var deeds = map[string]func(mode []string) []string{
	// ignores-eof and ignores-term do not end when they are asked to, in one of the two ways.
	"ignores-eof": func(mode []string) []string {
		endsAtEOF = false
		return mode
	},
	"ignores-term": func(mode []string) []string {
		signal.Ignore(syscall.SIGTERM, syscall.SIGINT, syscall.SIGHUP)
		return mode
	},

	// wrapper has a child that is the server, as npx does, and ends with it. It hears no SIGTERM.
	"wrapper": func(mode []string) []string {
		signal.Ignore(syscall.SIGTERM)
		_ = start(mode...).Wait()
		os.Exit(0)
		return nil
	},
	// launcher has such a child too, and leaves it.
	"launcher": func(mode []string) []string {
		start(mode...)
		os.Exit(0)
		return nil
	},

	// child, daemon, double and stripped leave a process beside the server that ends by nothing but SIGKILL: one in the
	// same session, one in a session of its own, one that has lost its parent too, and one with another environment.
	"child": func(mode []string) []string {
		stay("stay", false, nil, "ready")
		return mode
	},
	"daemon": func(mode []string) []string {
		stay("stay", true, nil, "ready")
		return mode
	},
	"double": func(mode []string) []string {
		_ = stay("daemon", false, nil, "nothing").Wait()
		return mode
	},
	"stripped": func(mode []string) []string {
		stay("stay", true, []string{"PATH=/usr/bin:/bin"}, "ready")
		return mode
	},
	// zombies leaves children that have ended, and for which nobody waits.
	"zombies": func(mode []string) []string {
		for range 5 {
			stay("nothing", false, nil)
			stay("daemon", false, nil, "nothing")
		}
		return mode
	},

	// stay is such a process. With the word ready it says so to who has started it.
	"stay": func(words []string) []string {
		signal.Ignore(syscall.SIGTERM, syscall.SIGINT, syscall.SIGHUP)
		if len(words) > 0 && words[0] == "ready" {
			w := os.NewFile(ready, "ready")
			_, _ = io.WriteString(w, "x")
			_ = w.Close()
		}
		block()
		return nil
	},
	"nothing": func([]string) []string {
		os.Exit(0)
		return nil
	},
}

// endsAtEOF is whether the end of its input ends the server.
var endsAtEOF = true

// ready is the file by which a process says that it is there.
const ready = 3

// block does nothing until the process is killed. Without a timer the runtime would take that for a deadlock.
func block() {
	for {
		time.Sleep(time.Hour)
	}
}

// stay starts this program in another mode without the files of this process, which it would hold open. One that says when it is ready
// is so when this returns.
func stay(mode string, session bool, env []string, words ...string) *exec.Cmd {
	cmd := exec.Command(os.Args[0], append([]string{mode}, words...)...)
	cmd.Env = env
	cmd.SysProcAttr = &syscall.SysProcAttr{Setsid: session}
	r, w, err := os.Pipe()
	if err != nil {
		die(1)
	}
	cmd.ExtraFiles = []*os.File{w}
	if err := cmd.Start(); err != nil {
		die(1)
	}
	_ = w.Close()
	if mode == "stay" {
		_, _ = r.Read(make([]byte, 1)) // or the end of one that is killed at once
	}
	_ = r.Close()
	return cmd
}
