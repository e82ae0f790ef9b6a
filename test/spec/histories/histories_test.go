package histories

import (
	"bytes"
	"encoding/json"
	"flag"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"sync"
	"testing"
	"time"

	"github.com/troupe-run/troupe/test/histories"
	"github.com/troupe-run/troupe/test/kit"
)

var (
	count = flag.Int("histories", 10, "how many histories happen")
	every = flag.Int("every", 0, "of the histories, this process has each of that many, and starts no others: how processes share the work")
)

func TestMain(m *testing.M) { kit.Main(m) }

// processes is how many processes share the work: of bubbles with clients of NATS, a process has one at a time.
const processes = 2

var nodes = histories.Harness[plan]{
	Package: "./test/spec/histories", Flag: "histories", Draw: newPlan, Happen: happen, Workers: 1, Times: 1, Wrong: 5,
}

// TestKept runs the histories that were wrong once, which must be right now.
func TestKept(t *testing.T) { nodes.Kept(t, 1) }

// TestHistories runs random histories of several nodes: see the package's documentation.
func TestHistories(t *testing.T) {
	if testing.Short() {
		*count = min(*count, 6)
	}
	var all histories.Report
	if *every > 0 || *count == 1 {
		all = nodes.Run(t, *count, max(1, *every))
	} else {
		all = shared(t)
	}
	if *count >= 200 {
		all.Must(t, "answers", "answers found again", "calls cancelled", "calls lost", "events", "messages to sessions", "news judged", "news repaired", "power cuts", "refusals", "resumes", "round trips", "second runs", "sessions ended", "tasks")
	}
	all.Write(t)
}

// shared has other processes share the histories.
func shared(t *testing.T) histories.Report {
	began, seed := time.Now(), nodes.Begin(t, *count)
	all := histories.Report{Seed: seed, Failed: []uint64{}, Sums: map[string]int{}}
	dir := t.TempDir()
	var mu sync.Mutex // guards all
	var running sync.WaitGroup
	for i := range processes {
		running.Go(func() {
			own := filepath.Join(dir, fmt.Sprint(i))
			c := exec.CommandContext(t.Context(), os.Args[0], "-test.run", "^TestHistories$", "-test.timeout", "0", fmt.Sprintf("-test.short=%v", testing.Short()),
				"-histories", fmt.Sprint(*count-i), "-seed", fmt.Sprint(seed+uint64(i)), "-every", fmt.Sprint(processes), "-report", own)
			c.Env = append(os.Environ(), "GOMAXPROCS=1")
			var out bytes.Buffer
			c.Stdout, c.Stderr = &out, &out
			failed := c.Run()
			var r histories.Report
			text, err := os.ReadFile(own)
			if err == nil {
				err = json.Unmarshal(text, &r)
			}
			if failed != nil || err != nil {
				t.Errorf("process %d: %v %v\n%s", i, failed, err, out.String())
			}
			mu.Lock()
			defer mu.Unlock()
			all.Add(r)
		})
	}
	running.Wait()
	all.Seconds = time.Since(began).Seconds()
	all.Print()
	return all
}
