package cluster

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"sync"
	"time"

	"github.com/troupe-run/troupe/internal/store"
)

// flusher holds acknowledgements back until their writes are on the disk. The
// server has written them to its files by then; one flush of those files serves
// all writes that came before it began, however many they are.
type flusher struct {
	dirOf  func(stream string) string // where the server keeps the files of a stream's messages
	failed func(text string)          // gets why files could not be flushed
	// sync flushes a file. It is a field because tests cut the power here.
	sync func(f *os.File) error

	mu    sync.Mutex // guards the fields below
	next  *flushGroup
	under int           // waiters that have no result yet
	idle  chan struct{} // closed when a draining flusher has no waiter left

	wake chan struct{} // holds one: next is there
	stop chan struct{} // closed to end the loop
	done chan struct{} // closed when the loop has ended

	logs map[string]*blockLog // by stream; only the loop uses it, and each flush its own
}

// flushGroup is the writes that wait for one flush.
type flushGroup struct {
	streams map[string]bool // what has to be flushed
	waiters []func(error)   // nothing joins a group that is no longer the next
	timer   *time.Timer     // ends the wait for a disk that hangs

	mu    sync.Mutex // guards ended
	ended bool
}

// blockLog is what the loop knows of the files of a stream's messages. The server
// appends to the last one, and begins another when it is full.
type blockLog struct {
	last  *os.File
	index int
}

func newFlusher(dirOf func(stream string) string, failed func(text string)) *flusher {
	return &flusher{dirOf: dirOf, failed: failed, sync: (*os.File).Sync, wake: make(chan struct{}, 1), stop: make(chan struct{}), done: make(chan struct{}), logs: map[string]*blockLog{}}
}

// afterFlush calls done once the writes to stream that the server has acknowledged so
// far are on the disk, or with an error if that is unknown.
func (f *flusher) afterFlush(stream string, done func(error)) {
	f.mu.Lock()
	f.under++
	g := f.next
	if g == nil {
		g = &flushGroup{streams: map[string]bool{}}
		g.timer = time.AfterFunc(callTimeout, func() {
			f.endGroup(g, fmt.Errorf("%w: not flushed within %v", store.ErrUnavailable, callTimeout))
		})
		f.next = g
	}
	g.streams[stream] = true
	g.waiters = append(g.waiters, done)
	f.mu.Unlock()
	select {
	case f.wake <- struct{}{}:
	default:
	}
}

// endGroup calls the waiters of a group, once.
func (f *flusher) endGroup(g *flushGroup, err error) {
	f.mu.Lock()
	if f.next == g {
		f.next = nil // Its time was up before its flush began.
	}
	f.mu.Unlock()
	g.timer.Stop()
	g.mu.Lock()
	ended := g.ended
	g.ended = true
	g.mu.Unlock()
	if ended {
		return
	}
	for _, done := range g.waiters {
		done(err)
	}
	f.mu.Lock()
	defer f.mu.Unlock()
	if f.under -= len(g.waiters); f.under == 0 && f.idle != nil {
		close(f.idle)
		f.idle = nil
	}
}

// flushGroups flushes group by group.
func (f *flusher) flushGroups() {
	defer close(f.done)
	for {
		select {
		case <-f.stop:
			f.forgetFiles()
			return
		case <-f.wake:
		}
		f.mu.Lock()
		g := f.next
		f.next = nil
		f.mu.Unlock()
		if g == nil {
			continue
		}
		failed := f.flushAll(g.streams)
		if failed != nil {
			// The system may have dropped what it could not write. Only what the
			// server finds when it reads the files again is certain.
			f.forgetFiles()
			f.failed(fmt.Sprintf("Critical write error: flush: %v", failed))
			failed = fmt.Errorf("%w: flush: %w", store.ErrUnavailable, failed)
		}
		f.endGroup(g, failed)
	}
}

// flushAll flushes streams beside one another: a disk serves flushes that come together with fewer writes of its own.
func (f *flusher) flushAll(streams map[string]bool) (failed error) {
	results := make(chan error, len(streams))
	for stream := range streams {
		l := f.logs[stream]
		if l == nil {
			l = &blockLog{} // It is not known what is on the disk, so all of it is written out.
			f.logs[stream] = l
		}
		go func() { results <- f.flushStream(stream, l) }()
	}
	for range streams {
		if err := <-results; err != nil && failed == nil {
			failed = err
		}
	}
	return failed
}

// flushStream writes out the files that the server may have appended to since the last
// time: the file that was the last one then, and those after it.
func (f *flusher) flushStream(stream string, l *blockLog) error {
	dir := f.dirOf(stream)
	entries, err := os.ReadDir(dir)
	if err != nil {
		return err
	}
	blocks := map[int]string{}
	top := 0
	for _, e := range entries {
		digits, ok := strings.CutSuffix(e.Name(), ".blk")
		if index, err := strconv.Atoi(digits); ok && err == nil && index >= l.index {
			blocks[index] = filepath.Join(dir, e.Name())
			top = max(top, index)
		}
	}
	if l.last != nil {
		if err := f.sync(l.last); err != nil {
			return err
		}
		// A new file may have the same name.
		if isSameFile(l.last, blocks[l.index]) {
			delete(blocks, l.index)
		}
	}
	if len(blocks) == 0 {
		return nil
	}
	for index, path := range blocks {
		file, err := os.OpenFile(path, os.O_RDWR, 0)
		if errors.Is(err, fs.ErrNotExist) {
			continue // Everything in it has expired.
		}
		if err != nil {
			return err
		}
		if err := f.sync(file); err != nil {
			_ = file.Close()
			return err
		}
		if index != top {
			_ = file.Close()
			continue
		}
		if l.last != nil {
			_ = l.last.Close()
		}
		l.last, l.index = file, index
	}
	d, err := os.Open(dir)
	if err != nil {
		return err
	}
	defer d.Close()
	return f.sync(d)
}

func isSameFile(f *os.File, path string) bool {
	a, err := f.Stat()
	if err != nil {
		return false
	}
	b, err := os.Stat(path)
	return err == nil && os.SameFile(a, b)
}

// forgetFiles drops what the loop knows of the files.
func (f *flusher) forgetFiles() {
	for _, l := range f.logs {
		if l.last != nil {
			_ = l.last.Close()
		}
	}
	clear(f.logs)
}

// drainWaiters waits until nothing waits for a flush, and reports whether that came
// before ctx ended.
func (f *flusher) drainWaiters(ctx context.Context) bool {
	f.mu.Lock()
	if f.under == 0 {
		f.mu.Unlock()
		return true
	}
	idle := make(chan struct{})
	f.idle = idle
	f.mu.Unlock()
	select {
	case <-idle:
		return true
	case <-ctx.Done():
		return false
	}
}

// stopLoop ends the loop.
func (f *flusher) stopLoop() {
	close(f.stop)
	<-f.done
}

// countWaiting returns the number of writes that wait for a flush.
func (f *flusher) countWaiting() int {
	f.mu.Lock()
	defer f.mu.Unlock()
	return f.under
}
