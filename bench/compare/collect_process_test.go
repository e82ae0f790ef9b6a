package main

import (
	"os"
	"os/exec"
	"path/filepath"
	"testing"

	"github.com/troupe-run/troupe/test/kit/when"
)

// filler is a server that holds 64 MiB of garbage.
const filler = `package main

import (
	"net"
	"os"
)

var kept []byte

func main() {
	kept = make([]byte, 64<<20)
	for i := range kept {
		kept[i] = 1
	}
	kept = nil
	l, err := net.Listen("tcp", os.Args[2])
	for err == nil {
		_, err = l.Accept()
	}
}
`

// TestCollect: a program to which the file is added gives back its memory when it is asked to, and
// as often as it is.
func TestCollect(t *testing.T) {
	when.Full(t, "builds a program, and measures it")
	t.Parallel()
	dir := t.TempDir()
	for name, text := range map[string]string{"go.mod": "module filler\n\ngo 1.26\n", "main.go": filler, "collecting.go": collecting} {
		if err := os.WriteFile(filepath.Join(dir, name), []byte(text), 0o644); err != nil {
			t.Fatal(err)
		}
	}
	bin := filepath.Join(dir, "filler")
	if out, err := exec.CommandContext(t.Context(), "go", "-C", dir, "build", "-o", bin, ".").CombinedOutput(); err != nil {
		t.Fatalf("build: %v\n%s", err, out)
	}
	p, err := startProcess(t.Context(), "--listen", []string{bin})
	if err != nil {
		t.Fatal(err)
	}
	defer p.stop()
	_, before := p.Used()
	if before == 0 {
		t.Skip("this is no Linux")
	}
	for range 2 {
		if live, err := p.collect(t.Context()); err != nil || live < 1 || live > 8<<20 {
			t.Fatalf("%d bytes are live: %v", live, err)
		}
	}
	if _, after := p.Used(); before-after < 60<<20 {
		t.Errorf("the memory was %d bytes and is %d", before, after)
	}
	p.stop()
	if _, err := p.collect(t.Context()); err == nil {
		t.Error("a server that has ended has collected")
	}
}
