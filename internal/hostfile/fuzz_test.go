package hostfile

import (
	"bytes"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/troupe-run/troupe/internal/configfile"
)

// judge checks what was read of a file: a mistake has a line of the file, no name comes twice among the backends that can be
// used, no secret of the environment is shown, and the file does not differ from itself.
func judge(t *testing.T, file []byte, f *File) {
	t.Helper()
	lines := 1 + bytes.Count(file, []byte("\n")) + bytes.Count(file, []byte("\r")) // a line break of YAML may be either
	seen := map[string]bool{}
	for _, b := range f.Backends {
		if b.Line < 1 || b.Line > lines {
			t.Errorf("%s is in line %d", b.Name, b.Line)
		}
		if b.Usable() {
			if seen[b.Name] || !goodName.MatchString(b.Name) {
				t.Errorf("the name %q", b.Name)
			}
			seen[b.Name] = true
			b.Digest()
		}
		for _, err := range b.faults() {
			if err.Line < 1 || err.Line > lines {
				t.Errorf("%v", err)
			}
		}
	}
	said := saidBy(f) + fmt.Sprintf("%v %+v %#v", f.Backends, f.Backends, f.Backends)
	if strings.Contains(said, "s3cret") && !bytes.Contains(file, []byte("s3cret")) && !bytes.Contains(file, []byte("\\")) {
		t.Errorf("a secret is shown:\n%s", said)
	}
	if Diff(f, f).Any() {
		t.Errorf("a file differs from itself: %+v", Diff(f, f))
	}
}

// addFiles adds the files of testdata with an ending.
func addFiles(f *testing.F, ending string) {
	f.Helper()
	files, err := filepath.Glob("testdata/*" + ending)
	if err != nil || len(files) == 0 {
		f.Fatalf("%v, %d files", err, len(files))
	}
	for _, name := range files {
		data, err := os.ReadFile(name)
		if err != nil {
			f.Fatal(err)
		}
		f.Add(data)
	}
}

// FuzzRead reads any file as that of a client.
func FuzzRead(f *testing.F) {
	addFiles(f, ".json")
	f.Add([]byte(inClient(`"command": "a", "args": ["${API_KEY}"], "env": {"A": "${file:relative}"}`)))
	f.Add([]byte(inClient(`"url": "https://${API_KEY}@a/?key=${EVENTS_KEY}", "headers": {"A": "$API_KEY"}`)))
	f.Add([]byte(`{"servers": {"a b": {"command": "a"}, "a_b": {"command": "a"}}, "inputs": [{"id": "a"}, 1, {}]}`))
	f.Add([]byte(`{"mcp": {"servers": {"a": {"command": "${input:b}"}}, "inputs": [{"id": "b", "default": "c"}], "allowed": ["a"]}}`))
	f.Fuzz(func(t *testing.T, file []byte) {
		if read, err := Read(file, at("/srv/project/.mcp.json")); err == nil {
			judge(t, file, read)
		}
	})
}

// FuzzReadSection reads the first key of any file as the section.
func FuzzReadSection(f *testing.F) {
	addFiles(f, ".yaml")
	f.Add([]byte("backends:\n  a: {command: a, args: ['${API_KEY}'], roots: ['${API_KEY}', forward], files: {read: [a]}}\n"))
	f.Add([]byte("backends:\n  a: &a {url: 'https://a/'}\n  b: *a\n  ? [c]\n  : d\n  <<: {e: f}\n"))
	f.Add([]byte("backends:\n  a:\n    command: |\n      x\n    env: {A: !!str b}\n"))
	f.Fuzz(func(t *testing.T, file []byte) {
		read := new(File)
		err := configfile.Read(file, map[string]configfile.Reader{"backends": ReadSection(read, at("/srv/project/troupe.yaml"))})
		if err == nil && len(read.Mistakes()) > 0 {
			t.Errorf("mistakes are passed over: %v", read.Mistakes())
		}
		judge(t, file, read)
	})
}
