package main

import (
	"bytes"
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
			if err := byFile.readFile(); err != nil {
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
