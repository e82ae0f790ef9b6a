//go:build full

package interop

import (
	"io"
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
	type line struct {
		Connected, Busy bool
		Feature, Error  string
		Resolved        int64
		Returned        []int64
	}
	runQuietly(t, func(l line, to io.Writer) {
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
		if _, err := io.WriteString(to, answer); err != nil {
			t.Error(err)
		}
	}, "node", filepath.Join("npm", "outage.mjs"), asJSON(map[string]any{"modules": modules, "sdk": release, "http": endpoint, "pastimes": tasks}))
}
