package main

import (
	"os"
	"path/filepath"
	"strings"
	"testing"
)

// A run is laid out as the suite writes it: the key is revision/invocation/scenario, with "=" before the scenario if it is one of clients, the value its
// checks: a status, or an id and a status joined by "=".
type run map[string]string

func write(t *testing.T, r run, exit string) string {
	t.Helper()
	dir := t.TempDir()
	for key, statuses := range r {
		parts := strings.SplitN(key, "/", 3)
		invocation := filepath.Join(dir, parts[0], parts[1])
		name, client := strings.CutPrefix(parts[2], "=")
		if !client {
			name = "server-" + name
		}
		results := filepath.Join(invocation, name+"-2026-11-21T04-07-40-356Z")
		put(t, filepath.Join(invocation, "exit"), exit+"\n")
		var checks []string
		for _, status := range strings.Fields(statuses) {
			id := "c"
			if name, rest, named := strings.Cut(status, "="); named {
				id, status = name, rest
			}
			checks = append(checks, `{"id":"`+id+`","name":"n","status":"`+status+`","errorMessage":"said\nmore"}`)
		}
		put(t, filepath.Join(results, "checks.json"), "["+strings.Join(checks, ",")+"]")
	}
	return dir
}

func put(t *testing.T, path, text string) {
	t.Helper()
	if err := os.MkdirAll(filepath.Dir(path), 0o755); err != nil {
		t.Fatal(err)
	}
	if err := os.WriteFile(path, []byte(text), 0o644); err != nil {
		t.Fatal(err)
	}
}

func TestJudge(t *testing.T) {
	t.Parallel()
	const primed, resumed = "server-sse-priming-event=SUCCESS server-sse-retry-field=SUCCESS", "server-sse-disconnect-resume=SUCCESS"
	const ping, polling = "2025-11-25/requirements/ping", "2025-11-25/alone/server-sse-polling"
	tests := []struct {
		name              string
		required, earlier string
		exceptions        string // for runs of the kind sdk-old
		runs              []run
		exit              string
		want              string // a part of the only problem; empty for none
	}{
		{name: "passed", required: "2025-11-25 ping\n", runs: []run{{ping: "SUCCESS INFO SKIPPED"}, {ping: "SUCCESS"}}},
		{name: "a failure nobody requires", required: "# none\n", runs: []run{{ping: "FAILURE"}}, exit: "1"},
		{name: "failure", required: "2025-11-25 ping", runs: []run{{ping: "SUCCESS FAILURE"}}, exit: "1", want: "FAILURE c said"},
		{name: "warning", required: "2025-11-25 ping", runs: []run{{ping: "SUCCESS WARNING"}}, want: "WARNING"},
		{name: "status never heard of", required: "2025-11-25 ping", runs: []run{{ping: "SUCCESS ODD"}}, want: "ODD"},
		{name: "no check", required: "2025-11-25 ping", runs: []run{{ping: ""}}, want: "no check of 0"},
		{name: "nothing but skipped", required: "2025-11-25 ping", runs: []run{{ping: "SKIPPED"}}, want: "no check of 1"},
		{name: "last run differs", required: "2025-11-25 ping", runs: []run{{ping: "SUCCESS"}, {ping: "WARNING SUCCESS"}}, want: "WARNING"},
		{name: "missing in one run", required: "2025-11-25 ping", runs: []run{{ping: "SUCCESS"}, {polling: "SUCCESS"}}, want: "did not run"},
		{name: "passed on another revision only", required: "2026-07-28 ping", runs: []run{{ping: "SUCCESS"}}, want: "2026-07-28 ping: "},
		{name: "no results", runs: []run{{}}, want: "no results"},
		{name: "polling", required: "2025-11-25 server-sse-polling", runs: []run{{polling: "INFO " + primed + " " + resumed}}},
		{name: "polling without resumption", required: "2025-11-25 server-sse-polling",
			runs: []run{{polling: primed + " server-sse-disconnect-resume=INFO"}}, want: "server-sse-disconnect-resume is not SUCCESS"},
		{name: "polling cut short", required: "2025-11-25 server-sse-polling", runs: []run{{polling: primed}}, want: "is not SUCCESS"},
		{name: "good, yet the suite failed", required: "2025-11-25 ping", runs: []run{{ping: "SUCCESS"}}, exit: "1", want: "exit status 1"},
		{name: "no longer required", required: "2025-11-25 ping", earlier: "2025-11-25 tools-list\n2025-11-25 ping", runs: []run{{ping: "SUCCESS"}}, want: "tools-list was required"},
		{name: "newly required", required: "2025-11-25 ping", earlier: "# none", runs: []run{{ping: "SUCCESS"}}},
		{name: "an exception", required: "2025-11-25 ping", exceptions: "sdk-* 2025-11-25 ping: it knows none", runs: []run{{ping: "FAILURE"}}, exit: "1"},
		{name: "an exception in one run", required: "2025-11-25 ping", exceptions: "new,sdk-old 2025-11-25 ping: it is late", runs: []run{{ping: "FAILURE"}, {ping: "SUCCESS"}}, exit: "1"},
		{name: "an exception of others", required: "2025-11-25 ping", exceptions: "sdk-new,old 2025-11-25 ping: it knows none", runs: []run{{ping: "SUCCESS FAILURE"}}, exit: "1", want: "FAILURE c said"},
		{name: "an exception that passes", required: "2025-11-25 ping", exceptions: "sdk-old 2025-11-25 ping: it knows none", runs: []run{{ping: "SUCCESS"}}, want: "is an exception of sdk-old, and yet passes"},
		{name: "an exception that nobody requires", exceptions: "sdk-old 2025-11-25 ping: it knows none", runs: []run{{ping: "FAILURE"}}, exit: "1", want: "nobody requires it"},
		{name: "a client", required: "2025-11-25 ping", runs: []run{{"2025-11-25/ping/=ping": "SUCCESS"}}},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			t.Parallel()
			dir := t.TempDir()
			o := options{required: filepath.Join(dir, "required.txt"), earlier: []string{filepath.Join(dir, "earlier.txt")}, exceptions: filepath.Join(dir, "exceptions.txt"), of: "sdk-old"}
			put(t, o.required, tt.required)
			put(t, o.earlier[0], tt.earlier)
			put(t, o.exceptions, "# of what need not pass\n"+tt.exceptions)
			if tt.exit == "" {
				tt.exit = "0"
			}
			var runs []string
			for _, r := range tt.runs {
				runs = append(runs, write(t, r, tt.exit))
			}
			var table strings.Builder
			problems, err := judge(&table, o, runs)
			if err != nil {
				t.Fatal(err)
			}
			if tt.want == "" && len(problems) > 0 {
				t.Errorf("problems are %q, want none", problems)
			}
			if tt.want != "" && (len(problems) != 1 || !strings.Contains(problems[0], tt.want)) {
				t.Errorf("problems are %q, want one with %q", problems, tt.want)
			}
			if !strings.Contains(table.String(), "scenarios over") {
				t.Errorf("table is %q, want one with its sums", &table)
			}
		})
	}
}

func TestJudgeRefusesWhatItCannotRead(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	fine, odd, twice := filepath.Join(dir, "fine"), filepath.Join(dir, "odd"), filepath.Join(dir, "twice")
	unreasoned, doubled, strange := filepath.Join(dir, "unreasoned"), filepath.Join(dir, "doubled"), filepath.Join(dir, "strange")
	put(t, unreasoned, "old 2025-11-25 ping\n")
	put(t, doubled, "old 2025-11-25 ping: one\no* 2025-11-25 ping: two\n")
	put(t, strange, "[ 2025-11-25 ping: one\n")
	put(t, fine, "2025-11-25 ping\n")
	put(t, odd, "ping\n")
	put(t, twice, "2025-11-25 ping\n2025-11-25 ping\n")
	results := write(t, run{"2025-11-25/requirements/ping": "SUCCESS"}, "0")
	broken := write(t, run{"2025-11-25/requirements/ping": "SUCCESS"}, "0")
	put(t, filepath.Join(broken, "2025-11-25/requirements/server-x-2026-11-21T04-07-40-356Z/checks.json"), "[{")
	stray := write(t, run{"2025-11-25/requirements/ping": "SUCCESS"}, "0")
	put(t, filepath.Join(stray, "2025-11-25/requirements/client-x/checks.json"), "[]")
	for name, args := range map[string]struct {
		required   string
		runs       []string
		exceptions string
	}{
		"no list":                       {filepath.Join(dir, "absent"), []string{results}, ""},
		"malformed line":                {odd, []string{results}, ""},
		"repeated line":                 {twice, []string{results}, ""},
		"no runs":                       {fine, nil, ""},
		"absent run":                    {fine, []string{filepath.Join(dir, "absent")}, ""},
		"unreadable checks":             {fine, []string{broken}, ""},
		"stray results":                 {fine, []string{stray}, ""},
		"no exceptions":                 {fine, []string{results}, filepath.Join(dir, "absent")},
		"an exception without a reason": {fine, []string{results}, unreasoned},
		"an exception of two lines":     {fine, []string{results}, doubled},
		"kinds that are none":           {fine, []string{results}, strange},
	} {
		if problems, err := judge(&strings.Builder{}, options{required: args.required, exceptions: args.exceptions, of: "old"}, args.runs); err == nil {
			t.Errorf("%s: problems are %q, want an error", name, problems)
		}
	}
}
