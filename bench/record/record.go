// Package record keeps the figures of a measurement together with what one needs to take them
// again.
package record

import (
	"encoding/json"
	"os"
	"os/exec"
	"runtime"
	"runtime/debug"
	"strings"
)

// Record is a measurement as it lies in bench/results.
type Record struct {
	Command string `json:"command"`
	Commit  string `json:"commit"`
	Go      string `json:"go"`
	CPUs    int    `json:"cpus"`
	Results any    `json:"results"`
}

// Of returns the record of what this process measured. program is how go run names it; its
// arguments are the process's.
func Of(program string, results any) Record {
	command := strings.Join(append([]string{"go", "run", program}, os.Args[1:]...), " ")
	return Record{command, Commit(), runtime.Version(), runtime.NumCPU(), results}
}

// Commit is the revision that the program was built from, or, with go run, that is checked out. "+"
// follows it when files differ from it, and it is "unknown" when neither is known.
func Commit() string {
	if rev, err := exec.Command("git", "describe", "--always", "--exclude=*", "--dirty=+").Output(); err == nil {
		return strings.TrimSpace(string(rev))
	}
	if info, ok := debug.ReadBuildInfo(); ok && info.Main.Version != "" {
		return info.Main.Version
	}
	return "unknown"
}

// Write writes the record to a file.
func (r Record) Write(file string) error {
	text, err := json.MarshalIndent(r, "", "  ")
	if err != nil {
		return err
	}
	return os.WriteFile(file, append(text, '\n'), 0o644)
}
