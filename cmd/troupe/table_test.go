package main

import (
	"bytes"
	"io/fs"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"testing"

	"github.com/spf13/cobra"
	"github.com/spf13/pflag"
)

// valuesByKind are values other than any default.
var valuesByKind = map[string]string{"bool": "true", "number": "7", "rate": "7.5", "size": "7MiB", "duration": "7s", "string": "seven", "revisions": "2025-06-18"}

// TestEverySettingCanBeSet sets every setting by the file and by --set, in the same way.
func TestEverySettingCanBeSet(t *testing.T) {
	t.Parallel()
	lists := map[string]string{"weight": "192.0.2.7=4", "trusted-proxy": "10.0.0.0/8"}
	for name, groups := range map[string][]flagGroup{"serve": settingGroups, "stdio": stdioGroups} {
		var defaults settings
		defaults.register(&cobra.Command{}, groups)
		n := 0
		defaults.table.VisitAll(func(f *pflag.Flag) {
			n++
			value := valuesByKind[f.Value.Type()]
			inFile := value
			switch f.Value.Type() {
			case "stringArray":
				if value = lists[f.Name]; value == "" {
					value = "https://seven.example"
				}
				inFile = "[" + value + "]"
			case "revisions":
				inFile = "[\"" + value + "\"]"
			}
			var byFile, bySet settings
			byFile.register(&cobra.Command{}, groups)
			byFile.config = writeConfig(t, f.Name+": "+inFile+"\n")
			if err := byFile.readFile(false); err != nil {
				t.Errorf("%s: %v", name, err)
			}
			cmd := &cobra.Command{}
			bySet.register(cmd, groups)
			if err := cmd.ParseFlags([]string{"--set", f.Name + "=" + value}); err != nil {
				t.Errorf("%s: %v", name, err)
			}
			got, want := bySet.table.Lookup(f.Name).Value.String(), byFile.table.Lookup(f.Name).Value.String()
			if got != want || got == f.Value.String() {
				t.Errorf("%s: %s is %q by --set and %q by the file, %q by default", name, f.Name, got, want, f.Value)
			}
		})
		if least := map[string]int{"serve": 80, "stdio": 15}[name]; n < least {
			t.Errorf("%s has %d settings, want at least %d", name, n, least)
		}
	}
}

// TestSet has --set in the place of a flag: it wins over the file, the last one counts, and those of a list are all in it.
func TestSet(t *testing.T) {
	t.Parallel()
	s, err := parsed(t, "memory: true\npage-size: 5\nmax-store: 1GiB\nallow-host: [a.example]\n", "--set", "page-size=6", "--set", "page-size=7", "--max-store", "2GiB",
		"--set", "allow-host=b.example", "--allow-host", "c.example", "--set", "log-level=warn", "--log-level", "debug", "--set", "weight=https://issuer.example/?a=b sub=9")
	if err != nil {
		t.Fatal(err)
	}
	o := s.options()
	if o.Limits.PageSize != 7 || o.Store.MaxStore != 2<<30 || strings.Join(s.allowHosts, " ") != "b.example c.example" || s.logLevel != "debug" || s.weights.String() != "https://issuer.example/?a=b sub=9" {
		t.Errorf("options are %+v with level %s and weights %s", o, s.logLevel, &s.weights)
	}
}

// TestUnknownNames has names that no setting has, and secrets beside them that no error repeats.
func TestUnknownNames(t *testing.T) {
	t.Parallel()
	for args, want := range map[string]string{
		"--set max-dept=64":           "--set max-dept: there is no such setting; did you mean max-depth?",
		"--set max_depth=64":          "--set max_depth: there is no such setting; did you mean max-depth?",
		"--set nats-tokn=hunter2":     "--set nats-tokn: there is no such setting; did you mean nats-token?",
		"--set bogus=hunter2":         "--set bogus: there is no such setting",
		"--set config=hunter2":        "--set config: there is no such setting",
		"--set auth=hunter2":          "--set auth: there is no such setting",
		"--set max-depth":             "--set max-depth: want NAME=VALUE",
		"--set =hunter2":              "--set : there is no such setting",
		"--set max-depth=deep":        `--set max-depth: "deep" is not a number: want a whole number from 0 to 2147483647`,
		"--set max-depth=":            `--set max-depth: "" is not a number: want a whole number from 0 to 2147483647`,
		"--set memory=hunter2":        "--set memory: strconv.ParseBool",
		"--set max-depth=2000":        "max-depth is 2000: it must be from 1 to 1024",
		"--lisen 127.0.0.1:0":         "unknown flag: --lisen; did you mean listen?",
		"--bogus":                     "unknown flag: --bogus",
		"-x":                          "unknown shorthand flag: 'x' in -x",
		"--listen":                    "flag needs an argument: --listen",
		"--max-store much":            `invalid argument "much" for "--max-store" flag: "much" is not a size`,
		"--config absent.yaml --help": "",
	} {
		var stdout, stderr bytes.Buffer
		code := run(append([]string{"serve"}, strings.Fields(args)...), &stdout, &stderr)
		if want == "" {
			if code != 0 {
				t.Errorf("%s ends with %d: %s", args, code, &stderr)
			}
			continue
		}
		if code != 2 || !strings.Contains(stderr.String(), "troupe: "+want) || strings.HasPrefix(args, "--set") && !strings.Contains(args, "memory") && strings.Contains(stderr.String(), "hunter2") {
			t.Errorf("%s ends with %d and %q, want %q", args, code, &stderr, want)
		}
	}
	for file, want := range map[string]string{
		"max-dept: 64\n":                    ":1: max-dept: there is no such setting; did you mean max-depth?",
		"memory: true\nlimits: {}\n":        ":2: limits: there is no such setting",
		"set: [a=b]\n":                      ":1: set: there is no such setting",
		"auth: {issuer: []}\nmemory: yes\n": ":1: auth.issuer: there is no such setting; did you mean issuers?",
	} {
		if _, err := parsed(t, file); err == nil || !strings.HasSuffix(err.Error(), want) {
			t.Errorf("error is %v, want %q", err, want)
		}
	}
}

// TestFormerFlags has each setting that is no flag where a flag would stand: the error says where it is set.
func TestFormerFlags(t *testing.T) {
	t.Parallel()
	for args, want := range map[string]string{
		"serve --max-depth 64":           "--max-depth is no flag: set it in the file of --config, as max-depth: 64, or by --set max-depth=64\n",
		"serve --memory --max-depth=64":  "--max-depth is no flag: set it in the file of --config, as max-depth: 64, or by --set max-depth=64\n",
		"serve --max-depth":              "as max-depth: NUMBER, or by --set max-depth=NUMBER\n",
		"serve --net-http --memory":      "as net-http: true, or by --set net-http=true\n",
		"serve --net-http=false":         "as net-http: false, or by --set net-http=false\n",
		"serve --weight 192.0.2.7=4":     "as weight: [CLIENT=N], or by --set weight=CLIENT=N\n",
		"serve --nats-token hunter2":     "as nats-token: TOKEN, or by --set nats-token=TOKEN\n",
		"serve --replay-age 6h":          "as replay-age: 6h, or by --set replay-age=6h\n",
		"serve --max-dept 64":            "unknown flag: --max-dept; did you mean max-depth?\n",
		"stdio --max-depth 64":           "as max-depth: 64, or by --set max-depth=64\n",
		"stdio --max-store 1GiB":         "unknown flag: --max-store\n",
		"stdio --set max-store=1GiB":     "--set max-store: there is no such setting\n",
		"serve --max-body much --memory": "as max-body: much, or by --set max-body=much\n",
	} {
		var stdout, stderr bytes.Buffer
		code := run(strings.Fields(args), &stdout, &stderr)
		if code != 2 || !strings.Contains(stderr.String(), want) || strings.Contains(stderr.String(), "hunter2") {
			t.Errorf("%s ends with %d and %q, want %q", args, code, &stderr, want)
		}
	}
	var s settings
	s.register(&cobra.Command{}, settingGroups)
	s.table.VisitAll(func(f *pflag.Flag) {
		if slices.Contains(serveFlags, f.Name) {
			return
		}
		var stdout, stderr bytes.Buffer
		code := run([]string{"serve", "--" + f.Name}, &stdout, &stderr)
		if code != 2 || !strings.Contains(stderr.String(), "--"+f.Name+" is no flag: set it in the file of --config, as "+f.Name+": ") {
			t.Errorf("--%s ends with %d and %q", f.Name, code, &stderr)
		}
	})
}

// TestFlags holds serve and stdio to few flags.
func TestFlags(t *testing.T) {
	t.Parallel()
	for most, cmd := range map[int]*cobra.Command{35: serveCommand(nil), 10: stdioCommand(nil, nil, nil)} {
		cmd.InitDefaultHelpFlag()
		n := 0
		cmd.LocalFlags().VisitAll(func(*pflag.Flag) { n++ })
		if n > most {
			t.Errorf("%s has %d flags, want at most %d", cmd.Name(), n, most)
		}
	}
}

// TestHelpLimits lists all settings that are no flags, and no others.
func TestHelpLimits(t *testing.T) {
	t.Parallel()
	for name, groups := range map[string][]flagGroup{"serve": settingGroups, "stdio": stdioGroups} {
		var stdout, stderr bytes.Buffer
		if code := run([]string{name, "--help-limits", "--config", "absent.yaml"}, &stdout, &stderr); code != 0 || stderr.Len() > 0 {
			t.Fatalf("%s ends with %d: %s", name, code, &stderr)
		}
		var listed, want []string
		for _, match := range regexp.MustCompile(`(?m)^  ([a-z-]+)( [A-Z]|   |$)`).FindAllStringSubmatch(stdout.String(), -1) {
			listed = append(listed, match[1])
		}
		var s settings
		cmd := &cobra.Command{}
		s.register(cmd, groups)
		flags := map[string][]string{"serve": serveFlags, "stdio": stdioFlags}[name]
		s.table.VisitAll(func(f *pflag.Flag) {
			if !slices.Contains(flags, f.Name) {
				want = append(want, f.Name)
			}
			if f.Usage == "" {
				t.Errorf("%s says nothing of %s", name, f.Name)
			}
		})
		slices.Sort(listed)
		slices.Sort(want)
		if !slices.Equal(listed, want) {
			t.Errorf("%s lists\n%q, want\n%q", name, listed, want)
		}
		for line := range strings.Lines(stdout.String()) {
			if len(line) > 120 {
				t.Errorf("%s has a line of %d bytes: %s", name, len(line), line)
			}
		}
	}
}

// TestDocumentedFlags compares the documents about the command with the flags that exist.
func TestDocumentedFlags(t *testing.T) {
	t.Parallel()
	known := map[string]bool{"help": true}
	for _, cmd := range []*cobra.Command{serveCommand(nil), stdioCommand(nil, nil, nil), callCommand(nil, nil), healthCommand(nil), configShow(nil)} {
		cmd.LocalFlags().VisitAll(func(f *pflag.Flag) { known[f.Name] = true })
	}
	for _, document := range []string{"README.md", "docs/serve.md", "docs/library.md", "docs/by-hand.md"} {
		text, err := os.ReadFile("../../" + document)
		if err != nil {
			t.Fatal(err)
		}
		for _, named := range regexp.MustCompile("(?:`|serve |stdio |call )--([a-z-]+)").FindAllStringSubmatch(string(text), -1) {
			if !known[named[1]] {
				t.Errorf("%s names --%s, which is no flag", document, named[1])
			}
		}
	}
}

// TestNothingNamesAFormerFlag looks through what people read and what starts servers.
func TestNothingNamesAFormerFlag(t *testing.T) {
	t.Parallel()
	var former []string
	for _, g := range settingGroups {
		for _, name := range g.names {
			if !slices.Contains(serveFlags, name) && name != "retry" { // a flag of call and of curl
				former = append(former, name)
			}
		}
	}
	pattern := regexp.MustCompile(`(?:^|[^a-z-])--(?:` + strings.Join(former, "|") + `)(?:[^a-z-]|$)`)
	files := 0
	err := filepath.WalkDir("../..", func(path string, entry fs.DirEntry, err error) error {
		switch {
		case err != nil:
			return err
		case entry.IsDir() && (entry.Name() == ".git" || entry.Name() == "node_modules" || entry.Name() == "testdata" || path == "../../bench/results"):
			return filepath.SkipDir
		case entry.IsDir() || path == "../../cmd/troupe/table_test.go" || !slices.Contains([]string{".go", ".md", ".cfg", ".conf", ".yml", ".yaml", ".mjs", ".py", ".sh", ""}, filepath.Ext(path)):
			return nil
		}
		info, err := entry.Info()
		if err != nil || !info.Mode().IsRegular() || info.Size() > 1<<20 { // programs have no ending either
			return err
		}
		text, err := os.ReadFile(path)
		files++
		n := 0
		for line := range strings.Lines(string(text)) {
			if n++; strings.Contains(line, "--") && pattern.MatchString(line) {
				t.Errorf("%s:%d names a flag that serve does not have: %s", path, n, pattern.FindString(line))
			}
		}
		return err
	})
	if err != nil || files < 500 {
		t.Errorf("read %d files: %v", files, err)
	}
}
