package main

import (
	"bufio"
	"bytes"
	"context"
	"fmt"
	"io"
	"os"
	"os/exec"
	"strings"
	"sync/atomic"
)

// compiled reads what go build -v prints: a line for each package that it compiles, and what is wrong with some.
type compiled struct {
	packages atomic.Int64
	rest     bytes.Buffer // every other line, which tells of errors
}

func (c *compiled) far() string { return fmt.Sprintf("%d packages compiled", c.packages.Load()) }

// read reads until r ends.
func (c *compiled) read(r io.Reader) error {
	lines := bufio.NewScanner(r)
	lines.Buffer(nil, 1<<20)
	for lines.Scan() {
		if line := lines.Bytes(); isPackage(line) {
			c.packages.Add(1)
		} else {
			c.rest.Write(line)
			c.rest.WriteByte('\n')
		}
	}
	return lines.Err()
}

// isPackage reports whether a line of go build -v is the path of a package, and no sentence.
func isPackage(line []byte) bool {
	return len(line) > 0 && !bytes.ContainsAny(line, " \t:#")
}

// run runs go and counts the packages that it compiles.
func (c *compiled) run(ctx context.Context, dir string, env, args []string) error {
	cmd := exec.CommandContext(ctx, "go", args...)
	cmd.Dir, cmd.Env = dir, append(os.Environ(), env...)
	r, w := io.Pipe()
	cmd.Stderr = w
	read := make(chan error, 1)
	go func() { read <- c.read(r) }()
	err := cmd.Run()
	_ = w.Close()
	if failed := <-read; err == nil {
		err = failed
	}
	if err != nil {
		return fmt.Errorf("go %s: %w\n%s", strings.Join(args, " "), err, c.rest.String())
	}
	return nil
}
