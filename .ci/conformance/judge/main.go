// Command judge decides whether runs of the conformance suite meet what .ci/conformance/required.txt asks for.
//
//	judge -required required.txt [-earlier earlier.txt]... RUN...
//
// A RUN is a directory <run>/<revision>/<invocation>/ of the suite's results, with the exit status of the suite beside
// them in the file "exit". The suite's own verdict is not enough: it calls a scenario passed that has no check at all,
// only skipped ones or only warnings.
package main

import (
	"bufio"
	"bytes"
	"encoding/json"
	"errors"
	"flag"
	"fmt"
	"io"
	"io/fs"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
)

// A scenario is one of the suite's scenarios on the wire of one revision, written "<revision> <name>".
type scenario struct {
	revision, name string
}

func (s scenario) String() string { return s.revision + " " + s.name }

// A check is the part of an entry of checks.json that decides.
type check struct {
	ID           string `json:"id"`
	Status       string `json:"status"`
	ErrorMessage string `json:"errorMessage"`
}

// A result is what one invocation of the suite said about one scenario.
type result struct {
	scenario scenario
	dir      string // the invocation's directory
	checks   []check
}

// allSuccess names checks of which an INFO means that the server did without the thing under test.
var allSuccess = map[string][]string{
	"server-sse-polling": {"server-sse-priming-event", "server-sse-retry-field", "server-sse-disconnect-resume"},
}

// resultDir is the name the suite gives to the results of a scenario: its name and the time.
var resultDir = regexp.MustCompile(`^server-(.+)-\d{4}-\d{2}-\d{2}T[0-9-]+Z$`)

func main() {
	var earlier []string
	required := flag.String("required", "", "`file` of the scenarios that must pass")
	flag.Func("earlier", "an earlier `file` of required scenarios, of which no line may have gone", func(path string) error {
		earlier = append(earlier, path)
		return nil
	})
	flag.Parse()
	problems, err := judge(os.Stdout, *required, earlier, flag.Args())
	if err != nil {
		fmt.Fprintln(os.Stderr, "judge:", err)
		os.Exit(2)
	}
	for _, problem := range problems {
		fmt.Fprintln(os.Stderr, "conformance:", problem)
	}
	if len(problems) > 0 {
		os.Exit(1)
	}
}

// judge prints the table of all scenarios to w and returns what is wrong with the runs.
func judge(w io.Writer, required string, earlier, runs []string) ([]string, error) {
	must, err := readRequired(required)
	if err != nil {
		return nil, err
	}
	var problems []string
	for _, path := range earlier {
		before, err := readRequired(path)
		if err != nil {
			return nil, err
		}
		for _, s := range before {
			if !slices.Contains(must, s) {
				problems = append(problems, fmt.Sprintf("%s was required before and is no longer", s))
			}
		}
	}
	if len(runs) == 0 {
		return nil, errors.New("no runs to judge")
	}
	faults := map[scenario][]string{}
	var seen []scenario
	for _, run := range runs {
		results, err := readRun(run)
		if err != nil {
			return nil, err
		}
		if len(results) == 0 {
			problems = append(problems, run+" has no results")
		}
		for _, r := range results {
			if !slices.Contains(seen, r.scenario) {
				seen = append(seen, r.scenario)
			}
			for _, fault := range r.faults() {
				faults[r.scenario] = append(faults[r.scenario], filepath.Base(run)+": "+fault)
			}
		}
		for _, s := range must {
			if !slices.ContainsFunc(results, func(r result) bool { return r.scenario == s }) {
				faults[s] = append(faults[s], filepath.Base(run)+": did not run")
			}
		}
		disagreements, err := disagreements(results, must)
		if err != nil {
			return nil, err
		}
		problems = append(problems, disagreements...)
	}
	for _, s := range must {
		for _, fault := range faults[s] {
			problems = append(problems, fmt.Sprintf("%s: %s", s, fault))
		}
		if !slices.Contains(seen, s) {
			seen = append(seen, s)
		}
	}
	table(w, seen, must, faults, len(runs))
	return problems, nil
}

// disagreements reports invocations that the suite calls failed although each scenario in them is required and good:
// the suite then knows of something that checks.json does not say.
func disagreements(results []result, must []scenario) ([]string, error) {
	good := map[string]bool{}
	for _, r := range results {
		fine, met := good[r.dir]
		good[r.dir] = (fine || !met) && slices.Contains(must, r.scenario) && len(r.faults()) == 0
	}
	var problems []string
	for dir, fine := range good {
		status, err := os.ReadFile(filepath.Join(dir, "exit"))
		if err != nil {
			return nil, err
		}
		if s := strings.TrimSpace(string(status)); fine && s != "0" {
			problems = append(problems, fmt.Sprintf("%s: each scenario is good, yet the suite ended with exit status %s", dir, s))
		}
	}
	slices.Sort(problems)
	return problems, nil
}

// faults says why r does not count as passed; none means that it does.
func (r result) faults() []string {
	var faults []string
	var successes []string
	for _, c := range r.checks {
		switch c.Status {
		case "SUCCESS":
			successes = append(successes, c.ID)
		case "INFO", "SKIPPED":
		default: // FAILURE, WARNING and whatever a later suite invents
			faults = append(faults, strings.TrimSpace(fmt.Sprintf("%s %s %s", c.Status, c.ID, firstLine(c.ErrorMessage))))
		}
	}
	if len(successes) == 0 {
		faults = append(faults, fmt.Sprintf("no check of %d is SUCCESS", len(r.checks)))
	}
	for _, id := range allSuccess[r.scenario.name] {
		if !slices.Contains(successes, id) {
			faults = append(faults, id+" is not SUCCESS")
		}
	}
	return faults
}

func firstLine(s string) string {
	line, _, _ := strings.Cut(s, "\n")
	return line
}

// table prints a line for each scenario, and the sums.
func table(w io.Writer, seen, must []scenario, faults map[scenario][]string, runs int) {
	passed, requiredPassed := 0, 0
	for _, s := range seen {
		verdict, note := "passed", ""
		if of := faults[s]; len(of) > 0 {
			verdict, note = "failed", "  "+of[0]
			if len(of) > 1 {
				note += fmt.Sprintf(" (and %d more)", len(of)-1)
			}
		} else {
			passed++
		}
		mark := " "
		if slices.Contains(must, s) {
			mark = "*"
			if verdict == "passed" {
				requiredPassed++
			}
		}
		fmt.Fprintf(w, "%s %s %s%s\n", verdict, mark, s, note)
	}
	fmt.Fprintf(w, "scenarios over %d runs: %d passed, %d failed; required (*): %d passed, %d failed\n",
		runs, passed, len(seen)-passed, requiredPassed, len(must)-requiredPassed)
}

// readRequired reads a list of scenarios. Empty lines and lines that begin with # say nothing.
func readRequired(path string) ([]scenario, error) {
	text, err := os.ReadFile(path)
	if err != nil {
		return nil, err
	}
	var list []scenario
	lines := bufio.NewScanner(bytes.NewReader(text))
	for lines.Scan() {
		line := strings.TrimSpace(lines.Text())
		if line == "" || strings.HasPrefix(line, "#") {
			continue
		}
		fields := strings.Fields(line)
		if len(fields) != 2 {
			return nil, fmt.Errorf("%s: %q is not a revision and a scenario", path, line)
		}
		s := scenario{fields[0], fields[1]}
		if slices.Contains(list, s) {
			return nil, fmt.Errorf("%s: %q is listed twice", path, line)
		}
		list = append(list, s)
	}
	return list, lines.Err()
}

// readRun reads all results of one run, in the order of their directories' names.
func readRun(run string) ([]result, error) {
	var results []result
	err := filepath.WalkDir(run, func(path string, d fs.DirEntry, err error) error {
		if err != nil || d.IsDir() || d.Name() != "checks.json" {
			return err
		}
		rel, err := filepath.Rel(run, path)
		if err != nil {
			return err
		}
		parts := strings.Split(filepath.ToSlash(rel), "/")
		if len(parts) < 4 {
			return fmt.Errorf("%s is not below a revision and an invocation", path)
		}
		// A scenario may have slashes in its name.
		name := resultDir.FindStringSubmatch(strings.Join(parts[2:len(parts)-1], "/"))
		if name == nil {
			return fmt.Errorf("%s does not lie where results of a server scenario do", path)
		}
		r := result{scenario: scenario{parts[0], name[1]}, dir: filepath.Join(run, parts[0], parts[1])}
		text, err := os.ReadFile(path)
		if err != nil {
			return err
		}
		if err := json.Unmarshal(text, &r.checks); err != nil {
			return fmt.Errorf("%s: %w", path, err)
		}
		results = append(results, r)
		return nil
	})
	return results, err
}
