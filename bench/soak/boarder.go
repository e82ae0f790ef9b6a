package main

import (
	"context"
	"encoding/json"
	"fmt"
	"net/http"
	"os"
	"os/exec"
	"path/filepath"
	"strconv"
	"strings"
	"time"

	"github.com/troupe-run/troupe/bench/client"
	"github.com/troupe-run/troupe/bench/program"
)

// hosting is serve with servers of others as backends, all of one program.
type hosting struct {
	o     options
	ctx   context.Context
	p     *program.Process
	named string // what the system calls the processes of the backends, which is of this run alone
	bin   string // their program
	rt    *http.Transport
}

// newHosting builds the program of the backends, of which config has the words behind it by their names; terms are further options by the same names.
func newHosting(ctx context.Context, o options, config, terms map[string]string, flags ...string) (*hosting, error) {
	dir := filepath.Dir(o.data)
	h := &hosting{o: o, ctx: ctx, named: fmt.Sprintf("soak%010d", os.Getpid()), rt: client.NewTransport()}
	h.bin = filepath.Join(dir, h.named)
	if out, err := exec.CommandContext(ctx, "go", "build", "-o", h.bin, "github.com/troupe-run/troupe/test/backend").CombinedOutput(); err != nil {
		return nil, fmt.Errorf("build the backend: %w\n%s", err, out)
	}
	var text strings.Builder
	text.WriteString("backends:\n")
	for name, words := range config {
		fmt.Fprintf(&text, "  %s: {command: %q, args: [\"%s\"]%s}\n", name, h.bin, strings.Join(strings.Fields(words), `", "`), terms[name])
	}
	path := filepath.Join(dir, "soak.yaml")
	if err := os.WriteFile(path, []byte(text.String()), 0o600); err != nil {
		return nil, err
	}
	addr, err := program.FreeAddress(o.seed)
	if err != nil {
		return nil, err
	}
	args := []string{"serve", "--listen", addr, "--data", o.data, "--config", path, "--drain-delay", "0s", "--set", "call-rate=1000000", "--set", "principal-rate=1000000", "--set", "sessions-per-principal=0"}
	h.p = &program.Process{Name: "serve", Bin: o.bin, Addr: addr, Health: "http://" + addr + "/readyz", Args: append(args, flags...)}
	h.p.Log.Alarms = []string{"panic"}
	return h, nil
}

// A boarder is a client with a session, which has an instance of one backend.
type boarder struct {
	h    *hosting
	c    *client.Client
	of   string // the backend, "" for one without serve
	ids  int
	pid  int // of the process that has counted last
	n    int // how often it had
	tops int // the pid of what stands over it, below the keeper: a wrapper, or itself
}

// board begins a session, and has its instance count.
func (h *hosting) board(of string) (*boarder, error) { return h.boardAs(of, "{}") }

// boardAs is board for a client that declares capabilities.
func (h *hosting) boardAs(of, capabilities string) (*boarder, error) {
	b := &boarder{h: h, c: client.New(h.p.URL(0), h.rt), of: of}
	if err := b.c.BeginSession(h.ctx, capabilities); err != nil {
		return nil, err
	}
	if err := b.count(); err != nil {
		return nil, err
	}
	b.tops = h.over(b.pid)
	return b, nil
}

// over returns the process of an instance that the keeper has started.
func (h *hosting) over(pid int) int {
	for {
		s, ok := program.Look(pid)
		if !ok {
			return pid
		}
		above, ok := program.Look(s.Parent)
		if !ok || above.Name != h.named {
			return pid
		}
		pid = s.Parent
	}
}

// keeper returns the keeper of an instance.
func (b *boarder) keeper() int {
	s, _ := program.Look(b.tops)
	return s.Parent
}

// refusedError is an answer that says that a call did not run, or that nobody knows.
type refusedError struct{ code int }

func (e *refusedError) Error() string { return fmt.Sprintf("refused with %d", e.code) }

// count has the instance count once.
func (b *boarder) count() error {
	var now struct{ PID, N int }
	text, err := b.call("counter", "{}")
	if err == nil {
		err = json.Unmarshal([]byte(text), &now)
	}
	if err != nil {
		return err
	}
	b.pid, b.n = now.PID, now.N
	return nil
}

// call calls a tool of the backend, and returns the text of its result.
func (b *boarder) call(name, arguments string) (string, error) {
	b.ids++
	id := strconv.Itoa(b.ids)
	if b.of != "" {
		name = b.of + "__" + name
	}
	a, err := b.c.SendRequest(b.h.ctx, id, "tools/call", fmt.Sprintf(`{"name":"%s","arguments":%s}`, name, arguments))
	if err != nil {
		return "", err
	}
	defer a.Close()
	m := parse(string(a.Body))
	for a.Events != nil && !m.answers(id) {
		e, err := a.Events.Next()
		if err != nil {
			return "", err
		}
		m = parse(e.Data)
	}
	switch {
	case m.Error != nil:
		return "", &refusedError{m.Error.Code}
	case !m.answers(id):
		return "", fmt.Errorf("%s is answered with %d %s", name, a.Status, a.Body)
	}
	return m.text(), nil
}

// hold begins a call that never ends.
func (b *boarder) hold() {
	other := boarder{h: b.h, c: b.c, of: b.of, ids: 1_000_000 + b.ids}
	go func() { _, _ = other.call("hold", `{"file":"/no/such/file"}`) }()
}

// leave ends the session.
func (b *boarder) leave() error {
	a, err := b.c.EndSession(b.h.ctx)
	if err == nil {
		a.Close()
	}
	return err
}

// goneWithin is how soon all processes of what has ended must be gone; stuckAfter is when they are taken for left behind on any
// machine.
const (
	goneWithin = 5 * time.Second
	stuckAfter = 2 * time.Minute
)

// awaitNone waits until the backends have no process, and tells the report what is left, or is late.
func (h *hosting) awaitNone(r *report, when string) time.Duration {
	for began := time.Now(); ; {
		all := program.Named(h.named)
		took := time.Since(began)
		switch {
		case len(all) == 0:
			if took > goneWithin {
				r.addOver("%s: processes of backends were there for %v", when, took)
			}
			return took
		case took > stuckAfter || !client.Sleep(h.ctx, 5*time.Millisecond):
			r.addBroken("%s: processes are left after %v: %+v", when, took, all)
			return took
		}
	}
}
