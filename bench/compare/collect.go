package main

import (
	"encoding/json"
	"os"
	"path/filepath"
)

// collecting is a file that is added to a server's package main for the time of a build. The server
// then collects when it gets a line on its standard input, and says what is live then, in heap and
// stacks. Pools empty in two collections: FreeOSMemory makes the second.
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

// peersModule is the module of the servers, and troupePackage the package of troupe, from the root
// of the repository.
const (
	peersModule   = "bench/peers"
	troupePackage = "cmd/troupe"
)

// writeOverlay writes into dir what adds that file to the servers, and returns what to pass to go
// build -overlay.
func writeOverlay(dir string) (string, error) {
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
