package main

import (
	"path/filepath"
	"runtime"
	"strings"
	"testing"
)

// TestNoTemporaryDirectoryProcess: what keeps nothing starts where the temporary directory is not there, as in a container whose root cannot be written.
func TestNoTemporaryDirectoryProcess(t *testing.T) {
	binary(t)
	if runtime.GOOS != "linux" {
		t.Skip("the directory that is taken instead is one of Linux")
	}
	t.Setenv("TMPDIR", filepath.Join(t.TempDir(), "none"))
	p := startStdio(t)
	p.send(`{"jsonrpc":"2.0","id":1,"method":"initialize","params":{"protocolVersion":"2025-11-25","capabilities":{},"clientInfo":{"name":"t","version":"1"}}}`)
	if !p.out.Scan() || !strings.Contains(p.out.Text(), `"result"`) {
		t.Errorf("troupe stdio answers %q; stderr: %s", p.out.Text(), &p.stderr)
	}
	start(t, "--memory")
}
