//go:build unix

package keeper

import (
	"bufio"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"syscall"
	"testing"
	"time"
)

// A speaker says frames of its own to a keeper.
type speaker struct {
	net.Conn
	r *bufio.Reader
}

func speak(t *testing.T, socket string) *speaker {
	t.Helper()
	conn, err := net.Dial("unix", socket)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = conn.Close() })
	return &speaker{conn, bufio.NewReader(conn)}
}

func (s *speaker) say(t *testing.T, k kind, body string) {
	t.Helper()
	if _, err := s.Write(append(appendHeader(nil, k, len(body)), body...)); err != nil {
		t.Fatal(err)
	}
}

// hear returns the next frame as its kind and body.
func (s *speaker) hear(t *testing.T) string {
	t.Helper()
	f, err := readFrame(s.r)
	if err != nil {
		return err.Error()
	}
	return fmt.Sprintf("%v %s", f.kind, f.body)
}

// TestOtherReleases has a keeper refuse by name what it does not know, and go on with what it does.
func TestOtherReleases(t *testing.T) {
	t.Parallel()
	f := spawned(t, time.Minute)
	f.start(t, spec(t, "kept", "echo")) // or it would end after bye
	s := speak(t, f.socket)
	s.say(t, kindHello, `{"oldest":1,"newest":7,"pid":1,"release":"later","colour":"red"}`)
	if got := s.hear(t); !strings.HasPrefix(got, `welcome {"version":1,`) {
		t.Fatalf("a later release: %s", got)
	}
	<-f.Ended() // it has taken over
	for _, row := range []struct {
		kind       kind
		body, want string
	}{
		{77, `{"request":1}`, `refused {"frame":"frame 77","code":"unknown","why":"of version 1"}`},
		{kindList, `{"request":2,"colour":"red"}`, `refused {"request":2,"frame":"list","code":"unknown","why":"list: json: unknown field \"colour\""}`},
		{kindStart, `{"request":3,"token":"t","spec":{"id":"a","command":["x"],"confine":{"seccomp":"try"}}}`, `refused {"request":3,"frame":"start","code":"unknown","why":"start: json: unknown field \"seccomp\""}`},
		{kindStart, `{"request":4,"token":"t","spec":{"id":"a"}}`, `refused {"request":4,"frame":"start","code":"spec","why":"it has no command"}`},
		{kindStop, `{"request":5,"handle":99}`, `refused {"request":5,"frame":"stop","code":"absent","why":"99"}`},
		{kindWelcome, `{}`, `refused {"frame":"welcome","code":"unknown","why":"of version 1"}`},
		{kindList, `{"request":6}`, `listed {"request":6,"kept":[{"id":"kept",`},
	} {
		s.say(t, row.kind, row.body)
		if got := s.hear(t); !strings.HasPrefix(got, row.want) {
			t.Errorf("%v %s: %s, want %s", row.kind, row.body, got, row.want)
		}
	}
	s.say(t, kindBye, `{"request":7,"keep":60000000000}`)
	s.hear(t)
	s.say(t, kindList, `{"request":8}`)
	if got := s.hear(t); !strings.Contains(got, `"code":"owner"`) {
		t.Errorf("after bye: %s", got)
	}
	for _, row := range []struct {
		kind       kind
		body, want string
	}{
		{kindHello, `{"oldest":2,"newest":3,"pid":1}`, `"code":"version","why":"this one speaks 1 to 1, the other 2 to 3"`},
		{kindList, `{"request":1}`, `"code":"unknown","why":"list came before hello"`},
		{kindHello, `[]`, `"code":"unknown"`},
		{kindAck, "short", "EOF"}, // before hello
	} {
		s := speak(t, f.socket)
		s.say(t, row.kind, row.body)
		got := s.hear(t)
		if row.want == "EOF" {
			got = s.hear(t)
		}
		if !strings.Contains(got, row.want) {
			t.Errorf("%v %s: %s, want %s", row.kind, row.body, got, row.want)
		}
	}
	last := speak(t, f.socket)
	last.say(t, kindHello, `{"oldest":1,"newest":1,"pid":1}`)
	if got := last.hear(t); !strings.HasPrefix(got, `welcome {"version":1,`) {
		t.Errorf("an earlier release: %s", got)
	}
	last.say(t, kindAck, "short")
	if got := last.hear(t); got != io.EOF.Error() {
		t.Errorf("a broken frame: %s", got)
	}
}

// TestStartedTooLate has a start that is sent again be refused when its process is being ended, because nobody was there for too long.
func TestStartedTooLate(t *testing.T) {
	t.Parallel()
	f := spawned(t, time.Minute)
	program, err := json.Marshal(ownProgram(t))
	if err != nil {
		t.Fatal(err)
	}
	order := func(request int) string {
		return fmt.Sprintf(`{"request":%d,"token":"t","spec":{"id":"a","command":[%s,"child","deaf"],"grace":%d}}`, request, program, time.Hour)
	}
	one := speak(t, f.socket)
	one.say(t, kindHello, `{"oldest":1,"newest":1,"keep":-1}`)
	one.hear(t)
	one.say(t, kindStart, order(1))
	var pid int
	if _, err := fmt.Sscanf(one.hear(t), `started {"request":1,"handle":1,"pid":%d}`, &pid); err != nil {
		t.Fatal(err)
	}
	_ = one.Close()
	two := speak(t, f.socket)
	two.say(t, kindHello, `{"oldest":1,"newest":1}`)
	two.hear(t)
	await(t, "nobody to be adopted", func() bool {
		two.say(t, kindList, `{"request":2}`)
		return two.hear(t) == `listed {"request":2}`
	})
	two.say(t, kindStart, order(3))
	if got := two.hear(t); !strings.Contains(got, `"request":3,"frame":"start","code":"ending"`) {
		t.Errorf("%s", got)
	}
	_ = syscall.Kill(pid, syscall.SIGKILL)
}

// TestAnotherKeeper has a client not take another keeper at the same socket for its own.
func TestAnotherKeeper(t *testing.T) {
	t.Parallel()
	f, g := spawned(t, time.Minute), spawned(t, time.Minute)
	path := filepath.Join(t.TempDir(), "s")
	if err := os.Symlink(f.socket, path); err != nil {
		t.Fatal(err)
	}
	c, err := Dial(t.Context(), Options{Socket: path, Log: quiet()})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = c.Close() })
	p, err := c.Start(t.Context(), spec(t, "a", "echo"))
	if err != nil {
		t.Fatal(err)
	}
	if err := os.Symlink(g.socket, path+"2"); err != nil {
		t.Fatal(err)
	}
	if err := os.Rename(path+"2", path); err != nil {
		t.Fatal(err)
	}
	_ = syscall.Kill(f.PID(), syscall.SIGKILL)
	<-c.Ended()
	if err := c.Err(); !errors.Is(err, ErrEnded) || !strings.Contains(err.Error(), "another one") {
		t.Errorf("%v", err)
	}
	if _, err := p.Status(); !errors.Is(err, ErrEnded) {
		t.Errorf("%v", err)
	}
	if _, err := g.List(t.Context()); err != nil {
		t.Errorf("who uses the other one has lost it: %v", err)
	}
}

// TestOtherUsers has a keeper speak to nobody who is another user.
func TestOtherUsers(t *testing.T) {
	t.Parallel()
	if os.Getuid() != 0 {
		t.Skip("only root can be another user")
	}
	f := spawned(t, time.Minute)
	for _, path := range []string{filepath.Dir(f.socket), filepath.Dir(filepath.Dir(f.socket))} {
		if err := os.Chmod(path, 0o755); err != nil {
			t.Fatal(err)
		}
	}
	if info, err := os.Stat(f.socket); err != nil || info.Mode().Perm() != 0o600 {
		t.Errorf("%v, %v", info, err)
	}
	for _, mode := range []os.FileMode{0o600, 0o666} { // whatever the file allows
		if err := os.Chmod(f.socket, mode); err != nil {
			t.Fatal(err)
		}
		cmd := exec.Command("/proc/self/exe", "dial", f.socket)
		cmd.SysProcAttr = &syscall.SysProcAttr{Credential: &syscall.Credential{Uid: 65534, Gid: 65534}}
		out, err := cmd.CombinedOutput()
		if err == nil || len(out) == 0 {
			t.Errorf("%o: %s, %v", mode, out, err)
		}
	}
	if _, err := f.List(t.Context()); err != nil {
		t.Errorf("the keeper's user: %v", err)
	}
}

// TestKeptCannotUseKeeper has a keeper speak to none of its own processes, however it is confined and whatever it does to leave: one that is confined would have it start another that is not.
func TestKeptCannotUseKeeper(t *testing.T) {
	t.Parallel()
	if _, err := listProcesses(); err != nil {
		t.Skip(err)
	}
	f := spawned(t, time.Minute)
	for i, role := range []string{"", "daemon", "away"} {
		s := spec(t, fmt.Sprint(i), append(strings.Fields(role), "try", "keeper", f.socket)...)
		if role == "" {
			s.Confine = Confine{Files: Try, NoNetwork: Try, OwnPIDs: Try}
		}
		p := f.start(t, s)
		line, err := p.Receive(t.Context())
		if err != nil || string(line.Text) == "ok" {
			t.Errorf("%q: the keeper answers: %q, %v", role, line.Text, err)
		}
		p.Ack(line.Number)
	}
	if _, err := f.List(t.Context()); err != nil {
		t.Errorf("who uses it: %v", err)
	}
}

// greeted says hello to a keeper, and returns what it answers.
func greeted(socket string) (frame, error) {
	conn, err := net.Dial("unix", socket)
	if err != nil {
		return frame{}, err
	}
	_, _ = conn.Write(append(appendHeader(nil, kindHello, 25), `{"oldest":1,"newest":1}  `...))
	return readFrame(bufio.NewReader(conn))
}

// dialOnly says whether a keeper speaks to this process.
func dialOnly(socket string) int {
	if _, err := greeted(socket); err != nil {
		fmt.Println(err)
		return 1
	}
	return 0
}

// TestDeadOutput has a keeper go on whose standard error nobody reads any more, and end a process without a socket with its connection.
func TestDeadOutput(t *testing.T) {
	t.Parallel()
	r, w, err := os.Pipe()
	if err != nil {
		t.Fatal(err)
	}
	socket, boot := filepath.Join(t.TempDir(), "s"), newToken()
	cmd := exec.Command(ownProgram(t), "keeper", "--socket", socket, "--boot", boot, "--keep", "1m")
	cmd.Stderr = w
	if err := cmd.Start(); err != nil {
		t.Fatal(err)
	}
	_ = w.Close()
	if _, err := bufio.NewReader(r).ReadString('\n'); err != nil { // it is ready
		t.Fatal(err)
	}
	_ = r.Close()
	c, err := Dial(t.Context(), Options{Socket: socket, Log: quiet()})
	if err != nil {
		t.Fatal(err)
	}
	for i := range 3 { // each is logged
		p, err := c.Start(t.Context(), spec(t, fmt.Sprint(i), "half"))
		if err != nil {
			t.Fatal(err)
		}
		<-p.Exited()
	}
	if err := c.Bye(t.Context(), 0); err != nil {
		t.Error(err)
	}
	_ = c.Close()
	if err := cmd.Wait(); err != nil {
		t.Errorf("the keeper: %v", err)
	}
}

// TestLog has the log of a keeper that crashes say how, and one that has grown put aside.
func TestLog(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	log := filepath.Join(dir, "log")
	if err := os.WriteFile(log, make([]byte, maxLog+1), 0o600); err != nil {
		t.Fatal(err)
	}
	c, err := Spawn(t.Context(), Options{Socket: filepath.Join(dir, "s"), Log: quiet()}, Launch{Program: []string{ownProgram(t), "keeper"}, Log: log})
	if err != nil {
		t.Fatal(err)
	}
	_ = syscall.Kill(c.PID(), syscall.SIGABRT)
	<-c.Ended()
	await(t, "the end of the keeper", func() bool { return !lives(c.PID()) })
	_ = c.Close()
	text, err := os.ReadFile(log)
	if err != nil || len(text) > maxLog || !strings.Contains(string(text), "keeper ready") || !strings.Contains(string(text), "SIGABRT") {
		t.Errorf("its log: %.1000s, %v", text, err)
	}
	if before, err := os.Stat(log + ".1"); err != nil || before.Size() != maxLog+1 {
		t.Errorf("the log before: %v", err)
	}
}

// TestLogThatGrows has a log be put aside while it is written, each time that it has grown.
func TestLogThatGrows(t *testing.T) {
	t.Parallel()
	path := filepath.Join(t.TempDir(), "log")
	files := 0
	l := &logFile{path: path, begun: func(*os.File) error { files++; return nil }}
	if err := l.openFile(); err != nil {
		t.Fatal(err)
	}
	line := []byte(strings.Repeat("x", 1<<20-1) + "\n")
	for range 3 * (maxLog>>20 + 1) {
		if n, err := l.Write(line); n != len(line) || err != nil {
			t.Fatal(n, err)
		}
	}
	_ = l.file.Close()
	for _, of := range []string{path, path + ".1"} {
		if info, err := os.Stat(of); err != nil || info.Size() != maxLog+1<<20 {
			t.Errorf("%s: %v, %v", of, info, err)
		}
	}
	if files != 3 {
		t.Errorf("%d files", files)
	}
}

// TestWithoutSocket has a keeper end with its only connection.
func TestWithoutSocket(t *testing.T) {
	t.Parallel()
	boot := newToken()
	c, err := Spawn(t.Context(), Options{Log: quiet()}, Launch{Program: []string{ownProgram(t), "keeper"}, Boot: boot, Log: filepath.Join(t.TempDir(), "log")})
	if err != nil {
		t.Fatal(err)
	}
	f := &fixture{Client: c, boot: boot}
	p := f.start(t, spec(t, "a", "and", "deaf"))
	expect(t, p, "ready")
	_ = c.Close()
	await(t, "the end of the keeper", func() bool { return !lives(c.PID()) })
	if left := marked(t, boot); len(left) > 0 {
		t.Errorf("left: %+v", left)
	}
}

// TestBadFlags are refused, and Spawn says which.
func TestBadFlags(t *testing.T) {
	t.Parallel()
	for args, want := range map[string]string{"": "--socket and --fd", "--socket s --fd 3 --boot a": "--socket and --fd", "--fd 3": "the boot", "--socket s --boot a-b": "the boot", "--socket s --boot a b": "unknown argument", "--socket s --boot a --keep -1s": "below zero"} {
		if _, err := readFlags(strings.Fields(args), io.Discard); err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("%s: %v", args, err)
		}
	}
	if _, err := Spawn(t.Context(), Options{Socket: filepath.Join(t.TempDir(), "no", "s")}, Launch{Program: []string{ownProgram(t), "keeper"}, Boot: "a", Log: filepath.Join(t.TempDir(), "log")}); err == nil || !strings.Contains(err.Error(), "no such file") {
		t.Errorf("%v", err)
	}
	if _, err := Spawn(t.Context(), Options{Socket: filepath.Join(t.TempDir(), "s"), Log: quiet()}, Launch{Program: []string{"/bin/true"}, Log: "/var/log/of-it"}); err == nil || !strings.Contains(err.Error(), "ended before it was ready: /var/log/of-it") {
		t.Errorf("one that ends at once: %v", err)
	}
	for name, lay := range map[string]func(path string) error{
		"is no socket":            func(path string) error { return os.WriteFile(path, []byte("mine"), 0o600) },
		"too many levels of symb": func(path string) error { return os.Symlink("mine", lockOf(path)) },
	} {
		path := filepath.Join(t.TempDir(), "s")
		if err := lay(path); err != nil {
			t.Fatal(err)
		}
		_, err := Spawn(t.Context(), Options{Socket: path, Log: quiet()}, Launch{Program: []string{ownProgram(t), "keeper"}, Log: filepath.Join(t.TempDir(), "log")})
		if err == nil || !strings.Contains(err.Error(), name) {
			t.Errorf("a path that %s: %v", name, err)
		}
		if text, err := os.ReadFile(path); err == nil && string(text) != "mine" {
			t.Errorf("it has %q", text)
		} else if _, err := os.Stat(filepath.Join(filepath.Dir(path), "mine")); err == nil {
			t.Error("a link was followed")
		}
	}
	long := filepath.Join(t.TempDir(), strings.Repeat("d", 100), "s")
	if err := os.Mkdir(filepath.Dir(long), 0o700); err != nil {
		t.Fatal(err)
	}
	c, err := Spawn(t.Context(), Options{Socket: long, Log: quiet()}, Launch{Program: []string{ownProgram(t), "keeper"}, Boot: newToken(), Log: filepath.Join(t.TempDir(), "log")})
	if err != nil {
		if len(openFiles()) > 0 && errors.Is(err, syscall.ENAMETOOLONG) {
			t.Errorf("a long path: %v", err)
		}
		return
	}
	if err := c.Bye(t.Context(), 0); err != nil {
		t.Error(err)
	}
	await(t, "the end of the keeper", func() bool { return !lives(c.PID()) })
	_ = c.Close()
}

// BenchmarkEcho is a line there and back.
func BenchmarkEcho(b *testing.B) {
	b.Run("direct", func(b *testing.B) {
		cmd := exec.Command("/bin/cat")
		in, _ := cmd.StdinPipe()
		out, _ := cmd.StdoutPipe()
		if err := cmd.Start(); err != nil {
			b.Fatal(err)
		}
		r := bufio.NewReader(out)
		b.ReportAllocs()
		for b.Loop() {
			_, _ = io.WriteString(in, "0123456789012345678901234567890123456789\n")
			if _, err := r.ReadSlice('\n'); err != nil {
				b.Fatal(err)
			}
		}
		_ = in.Close()
		_ = cmd.Wait()
	})
	boot := newToken()
	kept, err := Spawn(b.Context(), Options{Log: quiet()}, Launch{Program: []string{ownProgram(b), "keeper"}, Boot: boot, Log: filepath.Join(b.TempDir(), "log")})
	if err != nil {
		b.Fatal(err)
	}
	embedded, err := StartEmbedded(b.Context(), Options{Log: quiet()}, boot, nil)
	if err != nil {
		b.Fatal(err)
	}
	for name, c := range map[string]*Client{"keeper": kept, "embedded": embedded} {
		b.Run(name, func(b *testing.B) {
			p, err := c.Start(b.Context(), Spec{ID: newToken(), Command: []string{"/bin/cat"}})
			if err != nil {
				b.Fatal(err)
			}
			line := []byte("0123456789012345678901234567890123456789")
			b.ReportAllocs()
			keeper, client := busy(c.PID()), busy(os.Getpid())
			for b.Loop() {
				if _, err := p.Send(b.Context(), line); err != nil {
					b.Fatal(err)
				}
				got, err := p.Receive(b.Context())
				if err != nil {
					b.Fatal(err)
				}
				p.Ack(got.Number)
			}
			if name == "keeper" {
				b.ReportMetric(float64(busy(c.PID())-keeper)/float64(b.N), "keeper-cpu-ns/op")
			}
			b.ReportMetric(float64(busy(os.Getpid())-client)/float64(b.N), "client-cpu-ns/op")
			if _, err := p.Stop(b.Context(), ""); err != nil {
				b.Error(err)
			}
			p.Forget()
		})
		_ = c.Close()
	}
}
