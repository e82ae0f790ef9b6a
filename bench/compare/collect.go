package main

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"strconv"
	"time"
)

// collecting is a file that is added to a server's package main for the time of a build. The server then collects when it gets a line on
// its standard input, and says what is live then, in heap and stacks. Pools empty in two collections: FreeOSMemory makes the second.
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
			var m runtime.MemStats
			runtime.ReadMemStats(&m)
			fmt.Println("` + collected + `", m.HeapAlloc+m.StackInuse)
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

// collect has the server collect its garbage and give back the memory, and returns what is live when it has, in bytes.
func (p *process) collect(ctx context.Context) (int64, error) {
	if _, err := p.in.Write([]byte("\n")); err != nil {
		return 0, fmt.Errorf("ask the server to collect: %w", err)
	}
	late := time.NewTimer(collectWithin)
	defer late.Stop()
	select {
	case text := <-p.collected:
		return strconv.ParseInt(text, 10, 64)
	case <-p.exited:
		return 0, errors.New("the server has ended")
	case <-late.C:
		return 0, fmt.Errorf("the server does not collect within %v", collectWithin)
	case <-ctx.Done():
		return 0, context.Cause(ctx)
	}
}
