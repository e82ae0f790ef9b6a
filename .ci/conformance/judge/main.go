// Command judge decides whether runs of the conformance suite meet what .ci/conformance/required.txt asks for.
//
//	judge -required required.txt [-earlier earlier.txt]... [-exceptions exceptions.txt -of KIND] RUN...
//
// A RUN is a directory <run>/<revision>/<invocation>/ of the suite's results, with the exit status of the suite beside
// them in the file "exit". The suite's own verdict is not enough: it calls a scenario passed that has no check at all,
// only skipped ones or only warnings.
//
// A line of the exceptions says of which kinds of runs a required scenario need not pass, and why:
//
//	KIND[,KIND]... REVISION SCENARIO: REASON
//
// In a KIND of the list, * stands for any text. An exception that passes in every run is a problem, too: the list says no
// more than is so.
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

// An exception is a required scenario that need not pass in runs of a kind.
type exception struct {
	scenario scenario
	why      string
}

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

// resultDir is the name the suite gives to the results of a scenario: its name and the time, after a word if it is one of servers.
var resultDir = regexp.MustCompile(`^(?:server-)?(.+)-\d{4}-\d{2}-\d{2}T[0-9-]+Z$`)

// options are the lists by which runs are judged.
type options struct {
	required   string   // the file of the scenarios that must pass
	earlier    []string // files of which no line may have gone
	exceptions string   // the file of those that need not pass; "" for none
	of         string   // the kind of the runs, for the exceptions
}

func main() {
	var o options
	flag.StringVar(&o.required, "required", "", "`file` of the scenarios that must pass")
	flag.Func("earlier", "an earlier `file` of required scenarios, of which no line may have gone", func(path string) error {
		o.earlier = append(o.earlier, path)
		return nil
	})
	flag.StringVar(&o.exceptions, "exceptions", "", "`file` of required scenarios that need not pass")
	flag.StringVar(&o.of, "of", "", "the `kind` of the runs, of which exceptions count")
	flag.Parse()
	problems, err := judge(os.Stdout, o, flag.Args())
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
func judge(w io.Writer, o options, runs []string) ([]string, error) {
	must, err := readRequired(o.required)
	if err != nil {
		return nil, err
	}
	var problems []string
	for _, path := range o.earlier {
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
	exceptions, err := readExceptions(o.exceptions, o.of)
	if err != nil {
		return nil, err
	}
	for _, e := range exceptions {
		i := slices.Index(must, e.scenario)
		if i < 0 {
			problems = append(problems, fmt.Sprintf("%s is an exception of %s, and nobody requires it", e.scenario, o.of))
			continue
		}
		must = slices.Delete(must, i, i+1)
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
	for _, e := range exceptions {
		if slices.Contains(seen, e.scenario) && len(faults[e.scenario]) == 0 {
			problems = append(problems, fmt.Sprintf("%s is an exception of %s, and yet passes", e.scenario, o.of))
		}
	}
	table(w, seen, must, exceptions, faults, len(runs))
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
func table(w io.Writer, seen, must []scenario, exceptions []exception, faults map[scenario][]string, runs int) {
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
		if i := slices.IndexFunc(exceptions, func(e exception) bool { return e.scenario == s }); i >= 0 {
			mark, note = "-", note+"  ["+exceptions[i].why+"]"
		}
		fmt.Fprintf(w, "%s %s %s%s\n", verdict, mark, s, note)
	}
	fmt.Fprintf(w, "scenarios over %d runs: %d passed, %d failed; required (*): %d passed, %d failed; exceptions (-): %d\n",
		runs, passed, len(seen)-passed, requiredPassed, len(must)-requiredPassed, len(exceptions))
}

// readLines reads the lines of a list. Empty lines and lines that begin with # say nothing.
func readLines(path string) ([]string, error) {
	text, err := os.ReadFile(path)
	if err != nil {
		return nil, err
	}
	var all []string
	lines := bufio.NewScanner(bytes.NewReader(text))
	for lines.Scan() {
		if line := strings.TrimSpace(lines.Text()); line != "" && !strings.HasPrefix(line, "#") {
			all = append(all, line)
		}
	}
	return all, lines.Err()
}

// readExceptions reads those of a list of exceptions that are of a kind. No list has none.
func readExceptions(path, of string) ([]exception, error) {
	if path == "" {
		return nil, nil
	}
	lines, err := readLines(path)
	if err != nil {
		return nil, err
	}
	var list []exception
	for _, line := range lines {
		what, why, reasoned := strings.Cut(line, ": ")
		fields := strings.Fields(what)
		if !reasoned || len(fields) != 3 {
			return nil, fmt.Errorf("%s: %q is not kinds, a revision, a scenario and why", path, line)
		}
		e := exception{scenario{fields[1], fields[2]}, why}
		for kind := range strings.SplitSeq(fields[0], ",") {
			matches, err := filepath.Match(kind, of)
			if err != nil {
				return nil, fmt.Errorf("%s: %q: %w", path, line, err)
			}
			if !matches {
				continue
			}
			if slices.ContainsFunc(list, func(other exception) bool { return other.scenario == e.scenario }) {
				return nil, fmt.Errorf("%s: %q is an exception of %s twice", path, line, of)
			}
			list = append(list, e)
		}
	}
	return list, nil
}

// readRequired reads a list of scenarios.
func readRequired(path string) ([]scenario, error) {
	lines, err := readLines(path)
	if err != nil {
		return nil, err
	}
	var list []scenario
	for _, line := range lines {
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
	return list, nil
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
			return fmt.Errorf("%s does not lie where results of a scenario do", path)
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
