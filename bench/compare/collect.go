package main

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"time"
)

// collecting is a file that is added to a server's package main for the time of a build. The server then collects when it gets a line on
// its standard input. Pools empty in two collections: FreeOSMemory makes the second.
const collecting = `package main

import (
	"bufio"
	"fmt"
	"os"
	"runtime"
	"runtime/debug"
)

func init() {
	go func() {
		for lines := bufio.NewScanner(os.Stdin); lines.Scan(); {
			runtime.GC()
			debug.FreeOSMemory()
			fmt.Println("` + collected + `")
		}
	}()
}
`

// peersModule is the module of the servers, and troupePackage the package of troupe, from the root of the repository.
const (
	peersModule   = "bench/peers"
	troupePackage = "cmd/troupe"
)

// overlay writes into dir what adds that file to the servers, and returns what to pass to go build -overlay.
func overlay(dir string) (string, error) {
	file := filepath.Join(dir, "collecting.go")
	if err := os.WriteFile(file, []byte(collecting), 0o644); err != nil {
		return "", err
	}
	replace := make(map[string]string)
	for _, pkg := range []string{troupePackage, peersModule} {
		added, err := filepath.Abs(filepath.Join(pkg, "collecting.go"))
		if err != nil {
			return "", err
		}
		replace[added] = file
	}
	text, err := json.Marshal(map[string]any{"Replace": replace})
	if err != nil {
		return "", err
	}
	to := filepath.Join(dir, "overlay.json")
	return to, os.WriteFile(to, text, 0o644)
}

// collectWithin bounds the time that a server may take to collect.
const collectWithin = time.Minute

// collect has the server collect its garbage and give back the memory, and returns when it has.
func (p *process) collect(ctx context.Context) error {
	if _, err := p.in.Write([]byte("\n")); err != nil {
		return fmt.Errorf("ask the server to collect: %w", err)
	}
	late := time.NewTimer(collectWithin)
	defer late.Stop()
	select {
	case <-p.collected:
		return nil
	case <-p.exited:
		return errors.New("the server has ended")
	case <-late.C:
		return fmt.Errorf("the server does not collect within %v", collectWithin)
	case <-ctx.Done():
		return context.Cause(ctx)
	}
}
