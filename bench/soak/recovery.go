package main

import (
	"bytes"
	"context"
	"encoding/json"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strconv"
)

// property is a property test that has histories happen.
type property struct{ dir, test, count string } // count is the flag that says how many

var (
	recoveryProperty = property{"actors/recovery", "TestHistories", "-histories"}
	fleetsProperty   = property{"actors/recovery", "TestFleets", "-fleets"}
	simProperty      = property{"internal/spec/histories", "TestHistories", "-histories"}
)

// recoveryReport is what came of many histories. The test writes it.
type recoveryReport struct {
	Histories int            `json:"histories"`
	Seed      uint64         `json:"seed"`   // of the first, the others follow
	Failed    []uint64       `json:"failed"` // seeds
	Seconds   float64        `json:"seconds"`
	Sums      map[string]int `json:"sums"` // what has happened how often
}

// runHistories has histories of a property test happen. Those that are wrong are made small and kept beside the test,
// which begins with them from then on.
func runHistories(ctx context.Context, o options, of property) (r recoveryReport, err error) {
	path := "github.com/troupe-run/troupe/" + of.dir
	dir, err := os.MkdirTemp("", "troupe-recovery-")
	if err != nil {
		return r, err
	}
	defer os.RemoveAll(dir)
	bin, report := filepath.Join(dir, "recovery.test"), filepath.Join(dir, "report.json")
	if out, err := exec.CommandContext(ctx, "go", "test", "-c", "-o", bin, path).CombinedOutput(); err != nil {
		return r, fmt.Errorf("build %s: %w\n%s", path, err, out)
	}
	where, err := exec.CommandContext(ctx, "go", "list", "-f", "{{.Dir}}", path).Output()
	if err != nil {
		return r, fmt.Errorf("find %s: %w", path, err)
	}
	c := exec.CommandContext(ctx, bin, "-test.timeout", "0", "-test.run", "^(TestKept|"+of.test+")$",
		of.count, strconv.Itoa(o.histories), "-seed", strconv.FormatUint(o.seed, 10), "-report", report)
	c.Dir, c.Stdout, c.Stderr = string(bytes.TrimSpace(where)), o.log, o.log
	failed := c.Run()
	text, err := os.ReadFile(report)
	if err == nil {
		err = json.Unmarshal(text, &r)
	}
	switch {
	case failed != nil:
		return r, fmt.Errorf("the property test in %s: %w", of.dir, failed)
	case err != nil:
		return r, fmt.Errorf("report of the property test in %s: %w", of.dir, err)
	case r.Histories != o.histories || len(r.Failed) > 0:
		return r, fmt.Errorf("of %d histories %d happened, and these were wrong: %v", o.histories, r.Histories, r.Failed)
	}
	return r, nil
}
