//go:build full

package interop

import (
	"bufio"
	"bytes"
	"context"
	"encoding/json"
	"io"
	"os/exec"
	"path/filepath"
	"testing"
	"time"
)

// outliving are the releases of the TypeScript SDK that must outlive an outage: the newest of each major one.
var outliving = []string{"1.32.2", "2.4.0"}

// outliveTypeScript runs npm/outage.mjs with a release, and reports its output as tests.
func outliveTypeScript(t *testing.T, endpoint, modules, release string, o *outage, connected, busy func()) {
	type task struct {
		Name   string         `json:"name"`
		Tool   string         `json:"tool,omitempty"`
		Args   map[string]any `json:"args"`
		Result string         `json:"result"`
	}
	var tasks []task
	for _, p := range pastimes {
		tasks = append(tasks, task{p.name, p.tool, p.args, p.result})
	}
	settings, err := json.Marshal(map[string]any{"modules": modules, "sdk": release, "http": endpoint, "pastimes": tasks})
	if err != nil {
		t.Fatal(err)
	}
	ctx, cancel := context.WithTimeout(t.Context(), 5*patience)
	defer cancel()
	node := exec.CommandContext(ctx, "node", filepath.Join("npm", "outage.mjs"), string(settings))
	var stderr bytes.Buffer
	node.Stderr = &stderr
	in, err := node.StdinPipe()
	if err != nil {
		t.Fatal(err)
	}
	out, err := node.StdoutPipe()
	if err != nil {
		t.Fatal(err)
	}
	if err := node.Start(); err != nil {
		t.Fatal(err)
	}
	done := false
	for lines := bufio.NewScanner(out); lines.Scan(); {
		var l struct {
			Connected, Busy, Done bool
			Feature, Error        string
			Resolved              int64
			Returned              []int64
		}
		if err := json.Unmarshal(lines.Bytes(), &l); err != nil {
			t.Errorf("it writes %s", lines.Bytes())
			continue
		}
		answer := ""
		switch {
		case l.Connected:
			connected()
			<-o.begin
			answer = "begin\n"
		case l.Busy:
			busy()
			<-o.back
			answer = "back\n"
		case l.Done:
			done = true
		default:
			t.Run(l.Feature, func(t *testing.T) {
				if l.Error != "" {
					t.Fatal(l.Error)
				}
				var returned []time.Time
				for _, ms := range l.Returned {
					returned = append(returned, time.UnixMilli(ms))
				}
				var resolved time.Time
				if l.Resolved != 0 {
					resolved = time.UnixMilli(l.Resolved)
				}
				o.tell(t, resolved, returned)
			})
		}
		if _, err := io.WriteString(in, answer); err != nil {
			t.Error(err)
		}
	}
	if err := node.Wait(); err != nil || !done || stderr.Len() > 0 {
		t.Errorf("node ends with %v, all done %t, and says %s", err, done, &stderr)
	}
}
