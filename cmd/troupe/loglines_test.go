package main

import (
	"context"
	"fmt"
	"io"
	"log/slog"
	"os"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/troupe-run/troupe/internal/bubble"
	"github.com/troupe-run/troupe/internal/telemetry"
	"github.com/troupe-run/troupe/mcp"
)

// reader takes what is written as long as it reads, and notes each write.
type reader struct {
	reads chan struct{} // closed once it reads

	mu     sync.Mutex // guards writes: the race detector knows nothing of the order that virtual time gives
	writes []string
}

// taken returns what was written since it was called last.
func (r *reader) taken() []string {
	r.mu.Lock()
	defer r.mu.Unlock()
	all := r.writes
	r.writes = nil
	return all
}

func newReader(reads bool) *reader {
	r := &reader{reads: make(chan struct{})}
	if reads {
		close(r.reads)
	}
	return r
}

func (r *reader) Write(p []byte) (int, error) {
	<-r.reads
	r.mu.Lock()
	defer r.mu.Unlock()
	r.writes = append(r.writes, string(p))
	return len(p), nil
}

// TestLinesAreWrittenTogether: lines of requests wait for others, but not for long, and never behind another line.
func TestLinesAreWrittenTogether(t *testing.T) {
	bubble.Test(t, func(t *testing.T) {
		r := newReader(true)
		l := newLogLines(r)
		expect := func(when string, want ...string) {
			t.Helper()
			synctest.Wait()
			if got := r.taken(); fmt.Sprint(got) != fmt.Sprint(want) {
				t.Errorf("%s: %q were written, want %q", when, got, want)
			}
		}
		log := func(w io.Writer, line string) {
			if n, err := io.WriteString(w, line+"\n"); n != len(line)+1 || err != nil {
				t.Errorf("%d, %v", n, err)
			}
		}
		log(l, "a")
		time.Sleep(gatherTime - 1)
		log(l, "b")
		expect("before the time is over")
		time.Sleep(time.Nanosecond)
		expect("after it", "a\nb\n")
		log(l, "c")
		log(promptLines{l}, "a warning")
		expect("with another line", "c\na warning\n")
		time.Sleep(gatherTime / 2)
		log(l, "d")
		time.Sleep(gatherTime)
		expect("after the time", "d\n")
		log(l, "e")
		l.flushWithin(time.Second)
		expect("at the end", "e\n")
		l.flushWithin(time.Second)
		expect("with nothing to write")
		much := strings.Repeat("x", gatherBytes/2-1)
		log(l, much)
		expect("with half of what is written together")
		log(l, much)
		time.Sleep(time.Nanosecond)
		expect("with all of it", much+"\n"+much+"\n")
	})
}

// TestLinesOfAStuckLog: no request waits for a log that nobody reads. What has no room is dropped and counted, and the log says so
// once it is read.
func TestLinesOfAStuckLog(t *testing.T) {
	bubble.Test(t, func(t *testing.T) {
		r := newReader(false)
		l := newLogLines(r)
		l.log = slog.New(slog.NewTextHandler(promptLines{l}, nil))
		line := strings.Repeat("x", 1023) + "\n"
		const fit, more = gatherBytes/1024 + gatherMost/1024, 5
		for i := range fit + more {
			if i == gatherBytes/1024 {
				time.Sleep(time.Nanosecond) // the first lines are being written
			}
			_, _ = io.WriteString(l, line)
		}
		if n := l.dropped.Load(); n != more {
			t.Errorf("%d lines were dropped, want %d", n, more)
		}
		began := time.Now()
		if l.flushWithin(time.Second); time.Since(began) != time.Second {
			t.Errorf("the end of the process waits for %v", time.Since(began))
		}
		close(r.reads)
		time.Sleep(gatherTime)
		synctest.Wait()
		text := strings.Join(r.taken(), "")
		if n := strings.Count(text, "x\n"); n != fit {
			t.Errorf("%d lines were written, want %d", n, fit)
		}
		if !strings.Contains(text, "lines of requests were dropped") || !strings.Contains(text, fmt.Sprintf("lines=%d\n", more)) {
			t.Errorf("the log does not say what was dropped: %.200s", strings.ReplaceAll(text, line, ""))
		}
	})
}

// BenchmarkRequestLog measures the line of a request: as it is written by the command, and with a write of its own.
func BenchmarkRequestLog(b *testing.B) {
	in, err := telemetry.New(telemetry.Config{})
	if err != nil {
		b.Fatal(err)
	}
	op, via := in.NewOperations("main").Operation(mcp.MethodToolsCall, "echo"), telemetry.Via{Revision: mcp.Latest, HTTP: 1}
	for _, format := range []string{"text", "json"} {
		for _, gathered := range []bool{true, false} {
			b.Run(fmt.Sprintf("format=%s/gathered=%v", format, gathered), func(b *testing.B) {
				file, err := os.Create(b.TempDir() + "/log")
				if err != nil {
					b.Fatal(err)
				}
				defer file.Close()
				var w io.Writer = file
				if gathered {
					l := newLogLines(file)
					defer l.flushWithin(time.Second)
					w = l
				}
				s := settings{logFormat: format, logLevel: "info"}
				r := telemetry.Requests{Log: s.logger(w), All: true}
				b.ReportAllocs()
				for b.Loop() {
					if took := time.Millisecond; r.Wants(took, 0) {
						op.LogRequest(context.Background(), &r, via, "ann@https://id.example.com", took, 0)
					}
				}
			})
		}
	}
}
