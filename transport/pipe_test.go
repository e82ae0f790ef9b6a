package transport

import (
	"bufio"
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"net"
	"os"
	"strconv"
	"strings"
	"sync"
	"syscall"
	"testing"
	"testing/iotest"
	"testing/synctest"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/troupe-run/troupe/codec"
	"github.com/troupe-run/troupe/internal/refusal"
	"github.com/troupe-run/troupe/test/kit/when"
)

// served has a Pipe read all of in, answer nothing and finish, and returns its messages and its output.
func served(t *testing.T, in io.Reader, o PipeOptions) (took []string, wrote string, err error) {
	t.Helper()
	var out bytes.Buffer
	p := NewPipe(in, &out, o)
	err = p.Serve(t.Context(), func(m *codec.Message, line []byte) {
		took = append(took, m.Kind.String()+" "+string(line))
	})
	p.Finish()
	if e := p.Wait(t.Context()); e != nil {
		t.Errorf("Wait: %v", e)
	}
	return took, out.String(), err
}

// reasonTold is what a client is told of a fault.
func reasonTold(e *codec.ScanError) string {
	if e.Code == -32600 {
		return e.Reason
	}
	return fmt.Sprintf("%s, at byte %d", e.Reason, e.Offset+1)
}

func TestPipeLines(t *testing.T) {
	t.Parallel()
	const n = `{"jsonrpc":"2.0","method":"n"}`
	req := "request " + ping
	bad := func(message string, rest ...string) string {
		return errorBody(-32600, message, strings.Join(rest, "")) + "\n"
	}
	broken := func(message string, rest ...string) string {
		return errorBody(-32700, message, strings.Join(rest, "")) + "\n"
	}
	reason := func(line string) string {
		var m codec.Message
		return reasonTold(codec.Scan([]byte(line), &m, codec.Limits{}))
	}
	sized := func(size int) string { // a notification of that many bytes
		const frame = `{"jsonrpc":"2.0","method":"","params":{}}`
		return `{"jsonrpc":"2.0","method":"` + strings.Repeat("m", size-len(frame)) + `","params":{}}`
	}
	const most = 200
	const half = `{"jsonrpc":"2.0","id":"a","method":`
	for name, row := range map[string]struct {
		in, out string
		took    []string
		max     int64
		refused string
	}{
		"nothing":        {},
		"one":            {in: ping + "\n", took: []string{req}},
		"two":            {in: ping + "\n" + n + "\n", took: []string{req, "notification " + n}},
		"CR LF":          {in: ping + "\r\n" + ping + "\r\n", took: []string{req, req}},
		"blank lines":    {in: "\n\r\n \t\r\n" + ping + "\n\n\n", took: []string{req}},
		"no LF":          {in: ping + "\n" + ping, took: []string{req, req}},
		"CR at the end":  {in: ping + "\r", took: []string{req}},
		"only CR":        {in: ping + "\r" + ping + "\n", out: broken(reason(ping+"\r"+ping), `,"id":7`), refused: "400 message"},
		"white space":    {in: "\t { \"jsonrpc\" : \"2.0\", \"method\":\t\"n\" } \n", took: []string{"notification \t { \"jsonrpc\" : \"2.0\", \"method\":\t\"n\" } "}},
		"pretty":         {in: "{\n  \"jsonrpc\": \"2.0\"\n}\n" + ping + "\n", out: broken(reason("{")) + broken(reason(`  "jsonrpc": "2.0"`)) + broken(reason("}")), took: []string{req}, refused: "400 message"},
		"batch":          {in: "[" + ping + "]\n", took: []string{"batch [" + ping + "]"}},
		"empty batch":    {in: "[]\n", out: bad("the batch is empty"), refused: "400 message"},
		"result":         {in: `{"jsonrpc":"2.0","id":"s.1","result":{}}` + "\n", took: []string{`result {"jsonrpc":"2.0","id":"s.1","result":{}}`}},
		"no object":      {in: "5\n", out: bad(reason("5")), refused: "400 message"},
		"empty object":   {in: "{}\n", out: bad(reason("{}")), refused: "400 message"},
		"no JSON":        {in: "Hello\n" + ping + "\n", out: broken(reason("Hello")), took: []string{req}, refused: "400 message"},
		"no UTF-8":       {in: "{\"jsonrpc\":\"2.0\",\"id\":1,\"method\":\"\xff\"}\n", out: broken(reason("{\"jsonrpc\":\"2.0\",\"id\":1,\"method\":\"\xff\"}"), `,"id":1`), refused: "400 message"},
		"NUL":            {in: "\x00\n", out: broken(reason("\x00")), refused: "400 message"},
		"cut off":        {in: half, out: broken(reason(half), `,"id":"a"`), refused: "400 message"},
		"bad request":    {in: `{"jsonrpc":"2.0","id":3,"method":"m","params":[]}` + "\n", out: bad("params must be an object", `,"id":3`), refused: "400 message"},
		"null id":        {in: `{"jsonrpc":"2.0","id":null,"method":"m"}` + "\n", out: bad("the id must be a string or an integer"), refused: "400 message"},
		"two ids":        {in: `{"jsonrpc":"2.0","id":1,"id":2,"method":"m"}` + "\n", out: bad("duplicate member in the message"), refused: "400 message"},
		"bad method":     {in: `{"jsonrpc":"2.0","method":1}` + "\n", out: bad("the method must be a string"), refused: "400 message"},
		"bad notice":     {in: `{"jsonrpc":"2.0","method":"n","params":[]}` + "\n", refused: "400 message"},
		"old notice":     {in: `{"jsonrpc":"1.0","method":"n"}` + "\n", refused: "400 message"},
		"bad answer":     {in: `{"jsonrpc":"2.0","id":3,"result":{},"error":{"code":1,"message":""}}` + "\n", refused: "400 message"},
		"bad error":      {in: `{"jsonrpc":"2.0","id":3,"error":"no"}` + "\n", refused: "400 message"},
		"answer, no id":  {in: `{"jsonrpc":"2.0","result":{}}` + "\n", refused: "400 message"},
		"exactly":        {in: sized(most) + "\n", took: []string{"notification " + sized(most)}},
		"exactly, CR LF": {in: sized(most) + "\r\n", took: []string{"notification " + sized(most)}},
		"exactly, no LF": {in: sized(most), took: []string{"notification " + sized(most)}},
		"too long":       {in: sized(most+1) + "\n" + ping + "\n", out: bad(fmt.Sprintf("the message is too large: max-body allows %d bytes", most)), took: []string{req}, refused: "413 too-large"},
		"too long, CR":   {in: sized(most+1) + "\r\n" + ping + "\n", out: bad(fmt.Sprintf("the message is too large: max-body allows %d bytes", most)), took: []string{req}, refused: "413 too-large"},
		"too long, end":  {in: sized(most + 1), out: bad(fmt.Sprintf("the message is too large: max-body allows %d bytes", most)), refused: "413 too-large"},
		"far too long":   {in: sized(300<<10) + "\n" + ping + "\n", out: bad(fmt.Sprintf("the message is too large: max-body allows %d bytes", most)), took: []string{req}, refused: "413 too-large"},
		"far, end":       {in: sized(300 << 10), out: bad(fmt.Sprintf("the message is too large: max-body allows %d bytes", most)), refused: "413 too-large"},
		"long":           {in: sized(300<<10) + "\n" + ping + "1\n" + sized(300<<10), max: 1 << 20, out: broken(reason(ping+"1"), `,"id":7`), took: []string{"notification " + sized(300<<10), "notification " + sized(300<<10)}, refused: "400 message"},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			for how, read := range map[string]func(io.Reader) io.Reader{
				"all": func(r io.Reader) io.Reader { return r }, "one byte": iotest.OneByteReader, "half": iotest.HalfReader, "end with data": iotest.DataErrReader,
			} {
				seen := newCounts()
				o := PipeOptions{MaxBody: row.max, Observer: seen}
				if row.max == 0 {
					o.MaxBody = most
				}
				took, out, err := served(t, read(strings.NewReader(row.in)), o)
				if err != nil {
					t.Errorf("%s: Serve: %v", how, err)
				}
				if diff := cmp.Diff(took, row.took); diff != "" {
					t.Errorf("%s: messages (-got +want):\n%s", how, diff)
				}
				if out != row.out {
					t.Errorf("%s: wrote %s, want %s", how, out, row.out)
				}
				if (len(seen.rejected) > 0) != (row.refused != "") || row.refused != "" && seen.rejected[row.refused] == 0 {
					t.Errorf("%s: observed %v, want %q", how, seen.rejected, row.refused)
				}
			}
		})
	}
}

func TestPipeWrites(t *testing.T) {
	t.Parallel()
	for name, row := range map[string]struct {
		do   func(p *Pipe)
		want string
	}{
		"nothing": {func(p *Pipe) { p.SetSession("s"); p.Accepted(); p.Comment(); p.Flush() }, ""},
		"event":   {func(p *Pipe) { p.Event("e.1", 1000, []byte(`{"a":"\n"}`)) }, `{"a":"\n"}` + "\n"},
		"order":   {func(p *Pipe) { p.Event("", 0, []byte("1")); p.Answer(200, []byte("2")); p.Event("", 0, []byte("3")) }, "1\n2\n3\n"},
		"pretty":  {func(p *Pipe) { p.Event("", 0, []byte("{\r\n  \"a b\": [\n1, 2 ]\r\n}\r\n")) }, `{"a b":[1,2]}` + "\n"},
		"pretty data": {func(p *Pipe) {
			p.Reject(&refusal.Refusal{Status: 400, Code: -1, Text: "no\n", Data: []byte("{\n\"a\": 1}"), ID: []byte("7")})
		}, `{"jsonrpc":"2.0","id":7,"error":{"code":-1,"message":"no\n","data":{"a":1}}}` + "\n"},
		"no JSON":     {func(p *Pipe) { p.Event("", 0, []byte("\"a\nb\r\n\"")) }, "\"a b  \"\n"},
		"spaces stay": {func(p *Pipe) { p.Event("", 0, []byte(`{ "a": 1 }`)) }, `{ "a": 1 }` + "\n"},
		"blank": {func(p *Pipe) {
			p.Event("", 0, nil)
			p.Event("", 0, []byte(" \n"))
			p.Answer(200, nil)
			p.Answer(200, []byte("\r\n"))
		}, ""},
		"no id": {func(p *Pipe) { p.Reject(refusal.New(400, -32600, "no")) }, ""},
		"error": {func(p *Pipe) { p.Reject(refusal.New(429, -32600, "no").In(time.Second).For([]byte(`"a"`))) }, errorBody(-32600, "no", `,"id":"a"`) + "\n"},
		"huge":  {func(p *Pipe) { p.Event("", 0, bytes.Repeat([]byte("1"), 3<<20)) }, strings.Repeat("1", 3<<20) + "\n"},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			var out bytes.Buffer
			p := NewPipe(strings.NewReader(""), &out, PipeOptions{})
			gone := make(chan struct{})
			p.Gone(func() { close(gone) })
			row.do(p)
			if !p.Open() || !p.Answer(202, nil) {
				t.Error("not open")
			}
			p.Finish()
			p.Event("", 0, []byte("late"))
			if p.Open() || p.Answer(200, []byte("late")) || p.Answer(202, nil) {
				t.Error("open after Finish")
			}
			if err := p.Wait(t.Context()); err != nil {
				t.Errorf("Wait: %v", err)
			}
			wait(t, "Gone", gone)
			p.Cut()
			if err := p.Wait(t.Context()); err != nil {
				t.Errorf("Wait after a late Cut: %v", err)
			}
			if got := out.String(); got != row.want {
				t.Errorf("got %.200q, want %.200q", got, row.want)
			}
			again := make(chan struct{})
			p.Gone(func() { close(again) })
			wait(t, "Gone of a pipe that is gone", again)
			if err := p.Room(t.Context()); err != ErrGone {
				t.Errorf("Room: got %v, want ErrGone", err)
			}
		})
	}
}

// gate is a writer whose writes wait.
type gate struct {
	open   chan struct{}
	mu     sync.Mutex
	writes []string
}

func (g *gate) Write(b []byte) (int, error) {
	<-g.open
	g.mu.Lock()
	defer g.mu.Unlock()
	g.writes = append(g.writes, string(b))
	return len(b), nil
}

// TestPipeGathers queues messages behind a write that is under way: one write sends them.
func TestPipeGathers(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		g := &gate{open: make(chan struct{})}
		p := NewPipe(strings.NewReader(""), g, PipeOptions{})
		want := []string{"0\n", ""}
		for i := range 100 {
			p.Event("", 0, strconv.AppendInt(nil, int64(i), 10))
			if i == 0 {
				synctest.Wait()
			} else {
				want[1] += strconv.Itoa(i) + "\n"
			}
		}
		close(g.open)
		p.Finish()
		if err := p.Wait(t.Context()); err != nil {
			t.Errorf("Wait: %v", err)
		}
		if diff := cmp.Diff(g.writes, want); diff != "" {
			t.Errorf("writes (-got +want):\n%s", diff)
		}
	})
}

// TestPipeCopies reuses the bytes of a queued message.
func TestPipeCopies(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		g := &gate{open: make(chan struct{})}
		p := NewPipe(strings.NewReader(""), g, PipeOptions{})
		data := []byte("1")
		for i := range 3 {
			data[0] = '1' + byte(i)
			p.Event("", 0, data)
			synctest.Wait()
		}
		data[0] = 'x'
		close(g.open)
		p.Finish()
		_ = p.Wait(t.Context())
		if got := strings.Join(g.writes, ""); got != "1\n2\n3\n" {
			t.Errorf("got %q", got)
		}
	})
}

func TestPipeRoom(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		r, w := io.Pipe()
		seen := newCounts()
		p := NewPipe(strings.NewReader(""), w, PipeOptions{MaxQueued: 1000, Observer: seen})
		kilo := bytes.Repeat([]byte("1"), 999)
		if err := p.Room(t.Context()); err != nil {
			t.Errorf("Room of an empty pipe: %v", err)
		}
		p.Event("", 0, kilo)
		ctx, cancel := context.WithTimeoutCause(t.Context(), time.Second, io.ErrShortBuffer)
		defer cancel()
		if err := p.Room(ctx); err != io.ErrShortBuffer {
			t.Errorf("Room of a full pipe: got %v, want the cause of ctx", err)
		}
		got := make(chan string)
		go func() {
			time.Sleep(time.Minute)
			line, _ := bufio.NewReaderSize(r, 1).ReadString('\n')
			got <- line
		}()
		began := time.Now()
		if err := p.Room(t.Context()); err != nil || time.Since(began) != time.Minute {
			t.Errorf("Room: got %v after %v, want a minute", err, time.Since(began))
		}
		if line := <-got; line != string(kilo)+"\n" {
			t.Errorf("read %q", line)
		}

		// The client does not read from here on. One message fits, and half of another one beside it does not.
		gone := make(chan struct{})
		p.Gone(func() { close(gone) })
		p.Event("", 0, kilo)
		synctest.Wait()
		time.Sleep(time.Hour)
		if !p.Open() {
			t.Error("cut for being slow")
		}
		waited := make(chan error)
		go func() { waited <- p.Room(t.Context()) }()
		synctest.Wait()
		p.Event("", 0, []byte("2"))
		<-gone
		if reason := <-seen.cuts; reason != cutQueue {
			t.Errorf("cut for %q, want %q", reason, cutQueue)
		}
		if err := <-waited; err != ErrGone {
			t.Errorf("Room of a cut pipe: got %v, want ErrGone", err)
		}
		if err := p.Wait(t.Context()); err != ErrGone {
			t.Errorf("Wait of a cut pipe: got %v, want ErrGone", err)
		}
		r.Close() // ends the write that was left behind
	})
}

func TestPipeWait(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		r, w := net.Pipe()
		p := NewPipe(w, w, PipeOptions{})
		p.Event("", 0, []byte("1"))
		p.Finish()
		ctx, cancel := context.WithTimeoutCause(t.Context(), time.Second, io.ErrShortBuffer)
		defer cancel()
		if err := p.Wait(ctx); err != io.ErrShortBuffer {
			t.Errorf("Wait for a peer that does not read: got %v, want the cause of ctx", err)
		}
		go func() {
			time.Sleep(time.Minute)
			_, _ = r.Read(make([]byte, 10))
		}()
		if err := p.Wait(t.Context()); err != nil {
			t.Errorf("Wait: %v", err)
		}
		if err := p.Wait(ctx); err != nil {
			t.Errorf("Wait with a context that is over: %v", err)
		}
	})
}

// TestPipeCut breaks off a write that is under way; its goroutine ends, or else the bubble would not.
func TestPipeCut(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		_, w := net.Pipe()
		seen := newCounts()
		p := NewPipe(w, w, PipeOptions{Observer: seen})
		p.Event("", 0, []byte("1"))
		synctest.Wait()
		serve := make(chan error)
		go func() { serve <- p.Serve(t.Context(), nil) }()
		synctest.Wait()
		p.Cut()
		p.Cut()
		if err := <-serve; err != ErrGone {
			t.Errorf("Serve: got %v, want ErrGone", err)
		}
		if reason := <-seen.cuts; reason != cutAsked || len(seen.cuts) != 0 {
			t.Errorf("cut for %q, want %q, once", reason, cutAsked)
		}
		if p.Event("", 0, []byte("2")); p.queue != nil {
			t.Error("a cut pipe holds what was queued")
		}
	})
}

func TestPipeWriteFails(t *testing.T) {
	t.Parallel()
	in, silent, err := os.Pipe()
	if err != nil {
		t.Fatal(err)
	}
	r, w, err := os.Pipe()
	if err != nil {
		t.Fatal(err)
	}
	defer in.Close()
	defer silent.Close() // not before: the collector would close it, which ends in
	defer w.Close()
	r.Close()
	seen := newCounts()
	p := NewPipe(in, w, PipeOptions{Observer: seen})
	gone := make(chan struct{})
	p.Gone(func() { close(gone) })
	serve := make(chan error)
	go func() { serve <- p.Serve(t.Context(), nil) }()
	p.Event("", 0, []byte("1"))
	wait(t, "Gone", gone)
	for what, err := range map[string]error{"Serve": <-serve, "Wait": p.Wait(t.Context())} {
		if !errors.Is(err, ErrGone) || !errors.Is(err, syscall.EPIPE) {
			t.Errorf("%s: got %v, want ErrGone and EPIPE", what, err)
		}
	}
	if reason := <-seen.cuts; reason != cutWrite {
		t.Errorf("cut for %q, want %q", reason, cutWrite)
	}
}

// short writes half, without an error.
type short struct{}

func (short) Write(b []byte) (int, error) { return len(b) / 2, nil }

func TestPipeShortWrite(t *testing.T) {
	t.Parallel()
	p := NewPipe(strings.NewReader(""), short{}, PipeOptions{})
	p.Event("", 0, []byte("1"))
	p.Finish()
	if err := p.Wait(t.Context()); !errors.Is(err, io.ErrShortWrite) {
		t.Errorf("Wait: got %v, want a short write", err)
	}
}

func TestPipeReadFails(t *testing.T) {
	t.Parallel()
	in := io.MultiReader(strings.NewReader(ping+"\n"+ping), iotest.ErrReader(io.ErrNoProgress))
	took, out, err := served(t, in, PipeOptions{})
	if len(took) != 1 || out != "" || !errors.Is(err, io.ErrNoProgress) {
		t.Errorf("got %v, %q, %v", took, out, err)
	}
	idle := iotest.ErrReader(nil) // neither reads nor fails
	if _, _, err := served(t, idle, PipeOptions{}); !errors.Is(err, io.ErrNoProgress) {
		t.Errorf("a reader without progress: got %v", err)
	}
}

func TestPipeCancelled(t *testing.T) {
	for name, readers := range map[string]func() (io.Reader, io.WriteCloser){
		"left behind": func() (io.Reader, io.WriteCloser) { return io.Pipe() },
		"interrupted": func() (io.Reader, io.WriteCloser) { return net.Pipe() },
	} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				in, client := readers()
				p := NewPipe(in, io.Discard, PipeOptions{})
				ctx, cancel := context.WithCancelCause(t.Context())
				go func() { _, _ = io.WriteString(client, strings.Repeat(ping+"\n", 3)) }()
				running, serve, taken := make(chan struct{}), make(chan error, 1), 0
				go func() {
					serve <- p.Serve(ctx, func(*codec.Message, []byte) {
						taken++
						close(running)
						time.Sleep(time.Hour)
					})
				}()
				<-running
				began := time.Now()
				cancel(io.ErrClosedPipe)
				if err := <-serve; err != io.ErrClosedPipe || time.Since(began) != time.Hour || taken != 1 {
					t.Errorf("got %v after %v and %d messages, want the cause after an hour and 1", err, time.Since(began), taken)
				}
				if !p.Open() {
					t.Error("the end of reading has closed the pipe")
				}
				if name == "left behind" {
					client.Close()
				}

				in, client = readers()
				p = NewPipe(in, io.Discard, PipeOptions{})
				ctx, cancel = context.WithCancelCause(t.Context())
				go func() { serve <- p.Serve(ctx, nil) }()
				synctest.Wait()
				cancel(io.ErrClosedPipe)
				if err := <-serve; err != io.ErrClosedPipe {
					t.Errorf("while it reads: got %v, want the cause", err)
				}
				if name == "left behind" {
					client.Close()
				}
			})
		})
	}
}

// TestPipeRefusesAtThePeersPace sends only malformed messages to a pipe whose peer reads late: no response is
// lost.
func TestPipeRefusesAtThePeersPace(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		const lines = 1000
		r, w := io.Pipe()
		p := NewPipe(strings.NewReader(strings.Repeat("x\n", lines)), w, PipeOptions{MaxQueued: 500})
		serve := make(chan error, 1)
		go func() {
			serve <- p.Serve(t.Context(), nil)
			p.Finish()
			_ = p.Wait(t.Context())
			w.Close()
		}()
		time.Sleep(time.Hour)
		got, err := io.ReadAll(r)
		if n := bytes.Count(got, []byte("\n")); n != lines || err != nil {
			t.Errorf("got %d lines, %v, want %d", n, err, lines)
		}
		if err := <-serve; err != nil {
			t.Errorf("Serve: %v", err)
		}
	})
}

func TestPipePanic(t *testing.T) {
	t.Parallel()
	var log bytes.Buffer
	in, client := io.Pipe()
	seen := newCounts()
	p := NewPipe(in, io.Discard, PipeOptions{Log: slog.New(slog.NewTextHandler(&log, nil)), Observer: seen})
	go func() { _, _ = io.WriteString(client, ping+"\n"+ping+"\n") }()
	if err := p.Serve(t.Context(), func(*codec.Message, []byte) { panic("a bug") }); err != ErrGone {
		t.Errorf("Serve: got %v, want ErrGone", err)
	}
	client.Close()
	if got := <-seen.cuts; got != cutPanic || !strings.Contains(log.String(), "pipe_test.go") {
		t.Errorf("cut for %q, want %q; logged %s", got, cutPanic, log.String())
	}
}

// TestPipeManyMessages echoes messages of all sizes to a client that reads and writes at once.
func TestPipeManyMessages(t *testing.T) {
	when.Unraced(t, "one goroutine does all of it")
	if testing.Short() {
		t.Skip("a crowd: runs without -short")
	}
	t.Parallel()
	const messages = 10000
	in, client, err := os.Pipe()
	if err != nil {
		t.Fatal(err)
	}
	out, server, err := os.Pipe()
	if err != nil {
		t.Fatal(err)
	}
	defer in.Close()
	defer out.Close()
	message := func(i int) string {
		return fmt.Sprintf(`{"jsonrpc":"2.0","id":%d,"method":"m","params":{"a":"%s"}}`, i, strings.Repeat("é", i*i%3001))
	}
	go func() {
		defer client.Close()
		w := bufio.NewWriter(client)
		defer w.Flush()
		for i := range messages {
			_, _ = w.WriteString(message(i) + "\n")
			if i%37 == 0 {
				w.Flush()
			}
		}
	}()
	p := NewPipe(in, server, PipeOptions{MaxQueued: 64 << 10})
	serve := make(chan error, 1)
	go func() {
		defer server.Close()
		err := p.Serve(t.Context(), func(_ *codec.Message, line []byte) {
			if err := p.Room(t.Context()); err != nil {
				t.Errorf("Room: %v", err)
			}
			p.Answer(200, line)
		})
		p.Finish()
		serve <- errors.Join(err, p.Wait(t.Context()))
	}()
	r := bufio.NewReader(out)
	for i := range messages {
		if got, err := r.ReadString('\n'); got != message(i)+"\n" || err != nil {
			t.Fatalf("message %d: got %.100q, %v", i, got, err)
		}
	}
	if rest, err := io.ReadAll(r); len(rest) != 0 || err != nil {
		t.Errorf("after the last message: %.100q, %v", rest, err)
	}
	if err := <-serve; err != nil {
		t.Errorf("Serve and Wait: %v", err)
	}
}

func TestPipeConcurrentUse(t *testing.T) {
	t.Parallel()
	for _, how := range []string{"finish", "cut"} {
		out, server := net.Pipe()
		p := NewPipe(server, server, PipeOptions{MaxQueued: 4 << 10})
		p.Gone(func() { server.Close() })
		var wg sync.WaitGroup
		wg.Go(func() { _ = p.Serve(t.Context(), func(*codec.Message, []byte) {}) })
		wg.Go(func() {
			for range 200 {
				_, _ = io.WriteString(out, ping+"\nx\n")
			}
		})
		for g := range 8 {
			wg.Go(func() {
				for i := range 200 {
					if p.Room(t.Context()) != nil {
						return
					}
					p.Event("", 0, fmt.Appendf(nil, "{\n\"g\":%d,\"i\":%d}", g, i))
					p.Flush()
					p.Comment()
				}
			})
		}
		wg.Go(func() { p.Gone(func() {}); p.SetSession("x"); p.Accepted(); p.Open(); _ = p.Wait(t.Context()) })
		var reader sync.WaitGroup
		reader.Go(func() {
			var next [8]int
			lines := 0
			for r := bufio.NewReader(out); ; lines++ {
				line, err := r.ReadString('\n')
				if err != nil {
					if line != "" && how != "cut" { // a cut interrupts the Write that is under way
						t.Errorf("%s: got a part of a line, %q", how, line)
					}
					break
				}
				var g, i int
				if _, err := fmt.Sscanf(line, `{"g":%d,"i":%d}`+"\n", &g, &i); err != nil {
					if !strings.HasPrefix(line, `{"jsonrpc":"2.0","error":`) {
						t.Errorf("%s: got line %q", how, line)
					}
					continue
				}
				if i != next[g] {
					t.Errorf("%s: got number %d of %d, want %d", how, i, g, next[g])
				}
				next[g]++
				if how == "cut" && lines >= 300 { // number 300 may be an error; a second Cut does nothing
					p.Cut()
				}
				if how == "finish" && next == [8]int{200, 200, 200, 200, 200, 200, 200, 200} {
					p.Finish()
				}
			}
		})
		reader.Wait()
		out.Close()
		wg.Wait()
	}
}
