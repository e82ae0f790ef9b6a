package cluster

import (
	"bufio"
	"fmt"
	"io"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"sync"
	"sync/atomic"
	"syscall"
	"testing"
	"time"

	"github.com/troupe-run/troupe/test/kit/when"
)

// TestEveryState copies the directory of a process at every flush and every rename,
// while the process starts, runs and ends, again and again. Each copy must come up,
// with everything that was acknowledged by then.
func TestEveryState(t *testing.T) {
	when.Full(t, "traces a process and opens hundreds of copies of its directory")
	t.Parallel()
	strace, err := exec.LookPath("strace")
	if err != nil {
		when.Lacking(t, err.Error())
	}
	exe, err := os.Executable()
	if err != nil {
		t.Fatal(err)
	}
	dir, copies := filepath.Join(t.TempDir(), "data"), t.TempDir()
	const calls = "fsync,fdatasync,rename,renameat,renameat2"
	log, said, err := os.Pipe()
	if err != nil {
		t.Fatal(err)
	}
	defer log.Close()
	// The process stops itself, all its threads, after each of these calls.
	c := exec.CommandContext(t.Context(), strace, "-f", "-qqq", "-o", "/proc/self/fd/3", "-e", "trace="+calls, "-e", "inject="+calls+":signal=SIGSTOP", exe, dir)
	c.Env = append(os.Environ(), childEnv+"=states")
	c.ExtraFiles = []*os.File{said}
	c.Stderr = os.Stderr
	out, err := c.StdoutPipe()
	if err != nil {
		t.Fatal(err)
	}
	if err := c.Start(); err != nil {
		t.Fatal(err)
	}
	_ = said.Close()
	var threads stops
	go threads.read(log)
	var acked atomic.Uint64
	var session atomic.Bool
	pid, ended := make(chan int, 1), make(chan error, 1)
	go func() {
		for lines := bufio.NewScanner(out); lines.Scan(); {
			var n uint64
			switch line := lines.Text(); {
			case line == "session":
				session.Store(true)
			case strings.HasPrefix(line, "pid "):
				_, _ = fmt.Sscanf(line, "pid %d", &n)
				pid <- int(n)
			default:
				_, _ = fmt.Sscanf(line, "acked %d", &n)
				acked.Store(n)
			}
		}
		ended <- c.Wait()
	}()
	var child int
	select {
	case child = <-pid:
	case err := <-ended:
		t.Fatalf("it ended before it began: %v", err)
	}

	type image struct {
		dir     string
		acked   uint64
		session bool
	}
	var images []image
	for running := true; running; {
		select {
		case err := <-ended:
			if err != nil {
				t.Errorf("the process that was stopped and copied: %v", err)
			}
			running = false
		case <-time.After(time.Millisecond):
			if !threads.all(child) {
				continue
			}
			im := image{filepath.Join(copies, fmt.Sprint(len(images))), acked.Load(), session.Load()}
			if err := os.CopyFS(im.dir, os.DirFS(dir)); err != nil {
				t.Fatal(err)
			}
			images = append(images, im)
			threads.clear()
			_ = syscall.Kill(child, syscall.SIGCONT)
		}
	}
	if len(images) < wantStates {
		t.Errorf("%d states, want %d", len(images), wantStates)
	}
	t.Logf("%d states", len(images))

	var wg sync.WaitGroup
	next := make(chan image, len(images))
	for _, im := range images {
		next <- im
	}
	close(next)
	for range 4 {
		wg.Go(func() {
			for im := range next {
				n, err := Open(t.Context(), Options{Dir: im.dir, MaxStore: 64 << 20})
				if err != nil {
					t.Errorf("state %s: %v", filepath.Base(im.dir), err)
					continue
				}
				if tail, err := n.Tail(t.Context(), testStream, 0); err != nil || tail < im.acked {
					t.Errorf("state %s: tail %d, %v, want at least %d", filepath.Base(im.dir), tail, err, im.acked)
				}
				if _, _, err := n.Get(t.Context(), testKey); err != nil && im.session {
					t.Errorf("state %s: session: %v", filepath.Base(im.dir), err)
				}
				if err := n.Close(t.Context()); err != nil {
					t.Errorf("state %s: %v", filepath.Base(im.dir), err)
				}
			}
		})
	}
	wg.Wait()
}

// stops has the threads that strace has seen stop. What /proc says of a thread is not enough: while strace
// handles the continuation of one, or any call that it traces, the thread looks as if it were stopped.
type stops struct {
	mu      sync.Mutex
	stopped map[string]bool // by thread id
}

// read reads strace's log to its end.
func (s *stops) read(log io.Reader) {
	for lines := bufio.NewScanner(log); lines.Scan(); {
		if fields := strings.Fields(lines.Text()); strings.HasSuffix(lines.Text(), "--- stopped by SIGSTOP ---") {
			s.mu.Lock()
			if s.stopped == nil {
				s.stopped = make(map[string]bool)
			}
			s.stopped[fields[0]] = true
			s.mu.Unlock()
		}
	}
}

// all reports whether all threads of a process have stopped since clear was called.
func (s *stops) all(pid int) bool {
	threads, err := os.ReadDir(fmt.Sprintf("/proc/%d/task", pid))
	if err != nil || len(threads) == 0 {
		return false
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	for _, thread := range threads {
		if !s.stopped[thread.Name()] {
			return false
		}
	}
	return true
}

// clear comes before the process continues.
func (s *stops) clear() {
	s.mu.Lock()
	defer s.mu.Unlock()
	clear(s.stopped)
}
