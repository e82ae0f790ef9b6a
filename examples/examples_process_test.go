// Package examples_test runs the programs of the examples as their comments say.
package examples_test

import (
	"bufio"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"go/parser"
	"go/token"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"
)

// logs holds what some of the programs log meanwhile.
var logs = map[string]string{
	"progress": "copy ended: cancelled by the client",
	"roots":    "the roots of try have changed",
	"mux":      "POST /agents/mcp",
}

// TestComments runs the commands in the comment of each program, a server and then clients of
// it, and compares the output with the lines below each command.
func TestComments(t *testing.T) {
	t.Parallel()
	bin := binary(t)
	for _, name := range programs(t) {
		script := scriptOf(t, name)
		if len(script) == 0 {
			continue // hello has no port to set, try is the client, and TestDurable covers durable
		}
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			want := "go run ./examples/" + name
			args, ok := strings.CutPrefix(script[0].line, want)
			if !ok {
				t.Fatalf("the first command is %q, want %q", script[0].line, want)
			}
			srv := start(t, bin, name, strings.Fields(strings.ReplaceAll(args, "go run ./examples/", bin+" "))...)
			for _, c := range script[1:] {
				if _, err := exec.LookPath("curl"); err != nil && strings.Contains(c.line, "curl ") {
					continue
				}
				if got := srv.run(c.line); !fits(got, c.output) {
					t.Errorf("$ %s\ngot:\n%swant:\n%s", c.line, got, c.output)
				}
			}
			if text := logs[name]; text != "" {
				srv.logged(text)
			}
		})
	}
}

// fits compares an output with that of a comment, where a line that ends with three dots
// stands for all lines that begin like it.
func fits(got, want string) bool {
	lines := strings.Split(got, "\n")
	patterns := strings.Split(want, "\n")
	return slices.EqualFunc(lines, patterns, func(line, pattern string) bool {
		beginning, open := strings.CutSuffix(pattern, "...")
		return line == pattern || open && strings.HasPrefix(line, beginning)
	})
}

// programs returns the directories with a main.go.
func programs(t *testing.T) (names []string) {
	files, err := filepath.Glob("*/main.go")
	if err != nil {
		t.Fatal(err)
	}
	for _, file := range files {
		names = append(names, filepath.Dir(file))
	}
	if len(names) < 5 {
		t.Fatalf("%d programs found", len(names))
	}
	return names
}

// A command is a line of a comment after a dollar sign, with the output below it. After a line
// that ends with <<'END' the command continues up to a line END.
type command struct{ line, output string }

func scriptOf(t *testing.T, name string) (script []command) {
	file, err := parser.ParseFile(token.NewFileSet(), filepath.Join(name, "main.go"), nil, parser.ParseComments|parser.PackageClauseOnly)
	if err != nil {
		t.Fatal(err)
	}
	for line := range strings.Lines(file.Doc.Text()) {
		text, code := strings.CutPrefix(line, "\t")
		first, isCommand := strings.CutPrefix(text, "$ ")
		switch {
		case !code:
		case isCommand:
			script = append(script, command{line: strings.TrimSpace(first)})
		case len(script) == 0:
		case strings.Contains(script[len(script)-1].line, "<<'END'") && !strings.HasSuffix(script[len(script)-1].line, "\nEND"):
			script[len(script)-1].line += "\n" + strings.TrimSpace(text)
		default:
			script[len(script)-1].output += text
		}
	}
	return script
}

// TestMain makes a folder in which the tests build the programs.
func TestMain(m *testing.M) {
	dir, err := os.MkdirTemp("", "troupe-examples-")
	if err != nil {
		panic(err)
	}
	buildDir = dir
	code := m.Run()
	_ = os.RemoveAll(dir)
	os.Exit(code)
}

var (
	buildDir string
	building sync.Once
)

// binary returns the path of one program made of all of them, whose first argument is the name
// of the program to run: linking each program takes seconds. With -short it skips the test.
func binary(t *testing.T) string {
	t.Helper()
	if testing.Short() {
		t.Skip("builds the programs and starts processes")
	}
	building.Do(func() { build(t, buildDir) })
	bin := filepath.Join(buildDir, "examples")
	if _, err := os.Stat(bin); err != nil {
		t.Fatal(err)
	}
	return bin
}

func build(t *testing.T, dir string) {
	t.Helper()
	overlay := map[string]map[string]string{"Replace": {}}
	var imports, entries strings.Builder
	for _, name := range programs(t) {
		files, err := filepath.Glob(name + "/*.go")
		if err != nil {
			t.Fatal(err)
		}
		for _, file := range files {
			text, err := os.ReadFile(file)
			if err != nil {
				t.Fatal(err)
			}
			from, err := filepath.Abs(file)
			if err != nil {
				t.Fatal(err)
			}
			to := filepath.Join(dir, strings.ReplaceAll(file, "/", "-"))
			overlay["Replace"][from] = to
			write(t, to, strings.NewReplacer("\npackage main\n", "\npackage "+name+"\n", "\nfunc main() {\n", "\nfunc Main() {\n").Replace("\n"+string(text)))
		}
		fmt.Fprintf(&imports, "import %q\n", "github.com/troupe-run/troupe/examples/"+name)
		fmt.Fprintf(&entries, "case %q: %s.Main()\n", name, name)
	}
	main := filepath.Join(dir, "main.go")
	// Who hosts commands starts this program as their parent.
	write(t, main, "package main\nimport \"os\"\nimport keeper \"github.com/troupe-run/troupe/host\"\n"+imports.String()+
		"func main() {\nkeeper.Main()\nname := os.Args[1]\nos.Args = append(os.Args[:1], os.Args[2:]...)\nswitch name {\n"+entries.String()+"}\n}\n")
	list, err := json.Marshal(overlay)
	if err != nil {
		t.Fatal(err)
	}
	write(t, filepath.Join(dir, "overlay.json"), string(list))
	if out, err := exec.CommandContext(t.Context(), "go", "build", "-overlay", filepath.Join(dir, "overlay.json"), "-o", filepath.Join(dir, "examples"), main).CombinedOutput(); err != nil {
		t.Fatalf("%v\n%s", err, out)
	}
}

func write(t *testing.T, path, text string) {
	t.Helper()
	if err := os.WriteFile(path, []byte(text), 0o600); err != nil {
		t.Fatal(err)
	}
}

// A server is a program that runs in a directory of its own.
type server struct {
	t      *testing.T
	bin    string
	name   string
	args   []string
	dir    string
	origin string        // such as http://127.0.0.1:40000
	early  []string      // what it had logged when it said that it serves: a call or a task of an earlier process may go on before
	log    chan string   // what it has logged since
	read   chan struct{} // closed once all that it logs has been read
	cmd    *exec.Cmd
}

func start(t *testing.T, bin, name string, args ...string) *server {
	t.Helper()
	s := &server{t: t, bin: bin, name: name, args: args, dir: t.TempDir()}
	s.start()
	return s
}

// start starts the program, and returns once it listens.
func (s *server) start() {
	s.t.Helper()
	s.cmd = exec.CommandContext(s.t.Context(), s.bin, append([]string{s.name}, s.args...)...) // #nosec G204 -- the program that build has made
	s.cmd.Dir = s.dir
	s.cmd.Env = append(os.Environ(), "LISTEN=127.0.0.1:0")
	stderr, err := s.cmd.StderrPipe()
	if err != nil {
		s.t.Fatal(err)
	}
	if err := s.cmd.Start(); err != nil {
		s.t.Fatal(err)
	}
	s.t.Cleanup(s.kill)
	log, read := make(chan string, 100_000), make(chan struct{})
	s.log, s.read = log, read
	go func() {
		defer close(read)
		defer close(log)
		for lines := bufio.NewScanner(stderr); lines.Scan(); {
			log <- lines.Text()
		}
	}()
	var early []string
	line := ""
	for s.early = nil; !strings.Contains(line, "serving http://"); early = append(early, line) {
		line = s.logged("")
	}
	s.early = early
	_, address, _ := strings.Cut(line, "http://")
	address, _, _ = strings.Cut(address, "/")
	s.origin = "http://" + address
}

// kill ends the program at once, and waits for its end. A second kill does nothing.
func (s *server) kill() {
	_ = s.cmd.Process.Kill()
	<-s.read // Wait closes what the log is read from
	_ = s.cmd.Wait()
}

// logged waits for a line with the text in the program's log.
func (s *server) logged(text string) string {
	s.t.Helper()
	all := s.early
	s.early = nil
	for i, line := range all {
		if strings.Contains(line, text) {
			s.early = all[i+1:]
			return line
		}
	}
	for late := time.After(10 * time.Minute); ; { // that is, it hangs
		select {
		case line, ok := <-s.log:
			if ok && strings.Contains(line, text) {
				return line
			}
			if all = append(all, line); ok {
				continue
			}
		case <-late:
		}
		s.t.Fatalf("%q is not in the program's log:\n%s", text, strings.Join(all, "\n"))
	}
}

// run runs a command in a shell and returns what it prints.
func (s *server) run(line string) string {
	s.t.Helper()
	cmd := s.shell(line)
	out, err := cmd.Output()
	if refused := new(exec.ExitError); err != nil && !errors.As(err, &refused) {
		s.t.Errorf("$ %s: %v", line, err)
	}
	return string(out) + cmd.Stderr.(*strings.Builder).String()
}

func (s *server) shell(line string) *exec.Cmd {
	ctx, cancel := context.WithTimeout(s.t.Context(), 10*time.Minute)
	s.t.Cleanup(cancel)
	line = strings.ReplaceAll(line, "go run ./examples/", s.bin+" ")
	line = strings.ReplaceAll(line, "http://127.0.0.1:8080", s.origin)
	cmd := exec.CommandContext(ctx, "sh", "-c", line) // #nosec G204 -- the commands are those of our own comments
	cmd.Dir = s.dir
	cmd.Env = append(os.Environ(), "URL="+s.origin+"/mcp")
	cmd.Stderr = new(strings.Builder)
	cmd.WaitDelay = time.Second
	return cmd
}
