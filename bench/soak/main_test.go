//go:build full

package main

import (
	"context"
	"fmt"
	"os"
	"testing"
)

// The programs that the tests run: troupe, and one that serves many copies of the demo.
var troupe, host string

func TestMain(m *testing.M) {
	if len(os.Args) > 1 && os.Args[1] == "attack" { // greed has started this program again
		os.Exit(run(os.Args[1:], os.Stdout, os.Stderr))
	}
	dir, err := os.MkdirTemp("", "troupe-soak-")
	if err == nil {
		troupe, err = build(context.Background(), dir, false)
	}
	if err == nil {
		host, err = build(context.Background(), dir, true)
	}
	if err != nil {
		fmt.Fprintln(os.Stderr, err)
		os.Exit(1)
	}
	code := m.Run()
	_ = os.RemoveAll(dir)
	os.Exit(code)
}
