//go:build unix

package keeper

import (
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"path/filepath"
	"runtime"
	"strings"
	"syscall"
	"time"
)

// A launcher makes processes, each from a thread that lives as long as this process: the system ends a child, where it can, with the thread that has made it.
type launcher struct {
	shim     []string // the command that becomes a confined program: see runShim. Empty where the program has none
	cgroups  *cgroups
	plain    chan func()
	bound    chan func() // from a thread that cannot gain privileges, nor what it starts
	boundErr error       // why there is no such thread
}

func newLauncher(shim []string, boot string) *launcher {
	l := &launcher{shim: shim, cgroups: &cgroups{boot: boot}, plain: make(chan func()), bound: make(chan func())}
	go serveThread(l.plain, nil)
	ready := make(chan error)
	go serveThread(l.bound, ready)
	l.boundErr = <-ready
	return l
}

// close ends the threads. What they have started ends with them where the system does that.
func (l *launcher) close() {
	close(l.plain)
	close(l.bound)
}

// serveThread runs jobs on one thread.
func serveThread(jobs <-chan func(), dropped chan<- error) {
	runtime.LockOSThread() // and never unlocked: the thread ends with the goroutine
	if dropped != nil {
		dropped <- setNoNewPrivs()
	}
	for job := range jobs {
		job()
	}
}

// A launched is a process that was just made, with the ends of its pipes here.
type launched struct {
	pid            int
	input          *os.File
	output, stderr *os.File
	unenforced     []string
	group          *cgroup
	theirs         []*os.File // the child's ends, and what else it gets
}

// close closes what is open here.
func (p *launched) close() {
	for _, f := range append([]*os.File{p.input, p.output, p.stderr}, p.theirs...) {
		if f != nil {
			_ = f.Close()
		}
	}
}

// start makes the process of a spec. enter is called with its pid before anybody can reap it. A confined one may fail after that: then it has ended, or is about to, and only its group is the caller's.
func (l *launcher) start(s Spec, mark string, forking func(func()), enter func(pid int)) (*launched, error) {
	env := append(append([]string(nil), s.Env...), MarkName+"="+mark)
	path, err := lookPath(s.Command[0], s.Env, s.Dir)
	if err != nil {
		return nil, fmt.Errorf("%w: %w", ErrStart, err)
	}
	p := &launched{}
	if err := p.openPipes(); err != nil {
		return nil, fmt.Errorf("%w: %w", ErrStart, err)
	}
	if err := l.launchConfined(p, s, path, env, mark, forking, enter); err != nil {
		p.close()
		if p.pid == 0 {
			p.group.remove()
		}
		return p, err
	}
	for _, f := range p.theirs {
		_ = f.Close()
	}
	p.theirs = nil
	return p, nil
}

func (p *launched) openPipes() error {
	for _, ends := range []struct {
		ours  **os.File
		write bool
	}{{&p.input, true}, {&p.output, false}, {&p.stderr, false}} {
		r, w, err := os.Pipe()
		if err != nil {
			p.close()
			return err
		}
		theirs := w
		if *ends.ours = r; ends.write {
			*ends.ours, theirs = w, r
		}
		p.theirs = append(p.theirs, theirs)
	}
	return nil
}

// launchConfined makes the process, in the first way of its namespaces that the system takes.
func (l *launcher) launchConfined(p *launched, s Spec, path string, env []string, mark string, forking func(func()), enter func(int)) error {
	thread := l.plain
	if s.Confine.Privileges.on() || s.Confine.Files.on() { // Landlock needs it, too
		switch {
		case l.boundErr == nil:
			thread = l.bound
		case s.Confine.Privileges == Require:
			return fmt.Errorf("%w: privileges: %w", ErrConfine, l.boundErr)
		case s.Confine.Privileges == Try:
			p.unenforced = append(p.unenforced, "privileges: "+l.boundErr.Error())
		}
	}
	var err error
	if p.group, err = l.cgroups.make(s.Confine, mark); err != nil {
		if s.Confine.Cgroup == Require {
			return fmt.Errorf("%w: cgroup: %w", ErrConfine, err)
		}
		p.unenforced = append(p.unenforced, "cgroup: "+err.Error())
	}
	program := program{path: path, argv: s.Command, env: env, dir: s.Dir}
	var status *os.File
	if s.Confine.needsShim() {
		if why := shimFailure(l.shim); why != nil {
			if s.Confine.Limits == Require || s.Confine.Files == Require {
				return fmt.Errorf("%w: files, limits: %w", ErrConfine, why)
			}
			p.unenforced = append(p.unenforced, "files, limits: "+why.Error())
		} else if program, status, err = p.wrapInShim(program, l.shim, s.Confine, mark); err != nil {
			return fmt.Errorf("%w: %w", ErrStart, err)
		}
	}
	if status != nil {
		defer func() { _ = status.Close() }()
	}
	if err := p.forkFirst(program, thread, s.Confine, forking, enter); err != nil {
		return err
	}
	if status == nil {
		return nil
	}
	for _, f := range p.theirs { // so that the status ends with the child's
		_ = f.Close()
	}
	p.theirs = nil
	return p.awaitShim(status)
}

// forkFirst makes the process in the first way that the system takes.
func (p *launched) forkFirst(g program, thread chan<- func(), c Confine, forking func(func()), enter func(int)) error {
	ways, err := variants(c)
	if err != nil {
		return fmt.Errorf("%w: %w", ErrConfine, err)
	}
	var first error
	for _, way := range ways {
		answered := make(chan error)
		thread <- func() {
			forking(func() {
				if p.pid, err = g.fork(p, way); err == nil {
					enter(p.pid)
				}
			})
			answered <- err
		}
		switch err := <-answered; {
		case err == nil:
			p.unenforced = append(p.unenforced, way.missing(first)...)
			return nil
		case !way.refusedBy(err):
			return fmt.Errorf("%w: %s: %w", ErrStart, g.path, err)
		case first == nil:
			first = err
		}
	}
	return fmt.Errorf("%w: %s: the system refuses the namespaces: %w", ErrConfine, namesOf(c), first)
}

// A program is what a process becomes.
type program struct {
	path      string
	argv, env []string
	dir       string
	extra     []*os.File // further files of the child, from 3 on
}

// fork makes a process of it.
func (g program) fork(p *launched, v variant) (int, error) {
	attr := &syscall.ProcAttr{Dir: g.dir, Env: g.env, Sys: &syscall.SysProcAttr{Setsid: true}}
	if attr.Dir == "" {
		attr.Dir = "/"
	}
	for _, f := range append(append([]*os.File(nil), p.theirs[:3]...), g.extra...) {
		fd, err := blockingFD(f)
		if err != nil {
			return 0, err
		}
		attr.Files = append(attr.Files, fd)
	}
	v.apply(attr.Sys)
	p.group.apply(attr.Sys)
	pid, err := syscall.ForkExec(g.path, g.argv, attr)
	runtime.KeepAlive(p)
	runtime.KeepAlive(g.extra)
	return pid, err
}

// blockingFD returns the descriptor of a file that a child gets, which expects that reads and writes block.
func blockingFD(f *os.File) (uintptr, error) {
	raw, err := f.SyscallConn()
	if err != nil {
		return 0, err
	}
	var number uintptr
	if e := raw.Control(func(fd uintptr) { number, err = fd, syscall.SetNonblock(int(fd), false) }); e != nil {
		return 0, e
	}
	return number, err
}

// A shimOrder is what the shim reads from its third file.
type shimOrder struct {
	Path    string
	Argv    []string
	Env     []string
	Confine Confine
}

// A shimReport is what it writes to its fourth before it becomes the program, or instead.
type shimReport struct {
	Unenforced []string `json:",omitempty"`
	Error      string   `json:",omitempty"`
	Confine    bool     `json:",omitempty"` // whether the error is of the confinement
}

const (
	shimOrderFD  = 3
	shimReportFD = 4
	shimTime     = 30 * time.Second
)

// wrapInShim returns the shim that becomes a program, and the file that tells how that went.
func (p *launched) wrapInShim(g program, shim []string, c Confine, mark string) (program, *os.File, error) {
	order, err := json.Marshal(shimOrder{g.path, g.argv, g.env, c})
	if err != nil {
		return g, nil, err
	}
	orderR, orderW, err := os.Pipe()
	if err != nil {
		return g, nil, err
	}
	statusR, statusW, err := os.Pipe()
	if err != nil {
		_ = errors.Join(orderR.Close(), orderW.Close())
		return g, nil, err
	}
	p.theirs = append(p.theirs, orderR, statusW)
	go func() { // an environment can be longer than a pipe takes
		_, _ = orderW.Write(order)
		_ = orderW.Close()
	}()
	return program{path: selfPath(), argv: append(append([]string(nil), shim...), roleExec), env: []string{MarkName + "=" + mark}, dir: g.dir, extra: []*os.File{orderR, statusW}}, statusR, nil
}

// awaitShim waits until the shim has become the program, or says why it could not.
func (p *launched) awaitShim(status *os.File) error {
	_ = status.SetReadDeadline(time.Now().Add(shimTime))
	var report shimReport
	n := 0
	for d := json.NewDecoder(io.LimitReader(status, 64<<10)); ; n++ { // what it tells last counts: it becomes the program after it has told that all is well
		if err := d.Decode(&report); errors.Is(err, io.EOF) {
			break
		} else if err != nil {
			return fmt.Errorf("%w: the process that confines itself does not answer: %w", ErrStart, err)
		}
	}
	switch {
	case report.Confine:
		return fmt.Errorf("%w: %s", ErrConfine, report.Error)
	case report.Error != "":
		return fmt.Errorf("%w: %s", ErrStart, report.Error)
	case n == 0:
		return fmt.Errorf("%w: the process that confines itself ended before it was done", ErrStart)
	}
	p.unenforced = append(p.unenforced, report.Unenforced...)
	return nil
}

// lookPath finds a program as a process with an environment would.
func lookPath(name string, env []string, dir string) (string, error) {
	if strings.Contains(name, "/") {
		if !filepath.IsAbs(name) {
			name = filepath.Join("/", dir, name)
		}
		return name, checkExecutable(name)
	}
	path := ""
	for _, entry := range env {
		if value, ok := strings.CutPrefix(entry, "PATH="); ok {
			path = value
		}
	}
	for _, dir := range filepath.SplitList(path) {
		if file := filepath.Join(dir, name); filepath.IsAbs(file) && checkExecutable(file) == nil {
			return file, nil
		}
	}
	return "", fmt.Errorf("%s: %w in the PATH of its environment", name, fs.ErrNotExist) // clients read it: PATH itself is not for them
}

func checkExecutable(file string) error {
	info, err := os.Stat(file)
	if err == nil && (info.IsDir() || info.Mode()&0o111 == 0) {
		err = &fs.PathError{Op: "exec", Path: file, Err: fs.ErrPermission}
	}
	return err
}
