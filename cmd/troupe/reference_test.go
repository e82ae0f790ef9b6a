package main

import (
	"flag"
	"fmt"
	"os"
	"regexp"
	"slices"
	"strings"
	"testing"

	"github.com/spf13/cobra"
	"github.com/spf13/pflag"

	"github.com/troupe-run/troupe/auth"
	"github.com/troupe-run/troupe/internal/configfile"
	"github.com/troupe-run/troupe/test/kit"
)

const reference = "../../docs/reference.md"

var updateReference = flag.Bool("update", false, "write the tables of "+reference)

// TestReference compares the tables of the document with the settings and the commands.
func TestReference(t *testing.T) {
	t.Parallel()
	tables := map[string]string{"Commands": commandTable()}
	var s settings
	s.register(&cobra.Command{}, settingGroups)
	for _, g := range settingGroups {
		tables[g.title] = settingRows(s.table, g)
	}
	kit.Tables(t, reference, tables, *updateReference, "go test ./cmd/troupe -run TestReference -update")
}

// settingRows is the table of a group of settings. One that is a flag has its dashes.
func settingRows(table *settingTable, g flagGroup) string {
	var b strings.Builder
	b.WriteString("| setting | in the environment | default | what it says |\n|---|---|---|---|\n")
	for _, name := range g.names {
		f := table.Lookup(name)
		arg, usage := argumentOf(f)
		if slices.Contains(serveFlags, name) {
			name = "--" + name
		}
		value := ""
		if v := f.DefValue; v != "" && v != "false" && v != "[]" && !strings.HasSuffix(usage, ")") {
			value = " `" + shortTime(v) + "`"
		}
		fmt.Fprintf(&b, "| `%s` | `%s` |%s | %s |\n", strings.TrimSpace(name+" "+arg), variableOf(f.Name), value, usage)
	}
	return b.String()
}

// commandTable is the table of all commands. Settings have tables of their own, and are left out where a command takes those.
func commandTable() string {
	var b strings.Builder
	b.WriteString("| command | what it does | its own flags |\n|---|---|---|\n")
	set := newTable()
	new(settings).declare(set)
	var walk func(c *cobra.Command)
	walk = func(c *cobra.Command) {
		if c.HasParent() {
			var flags []string
			c.LocalFlags().VisitAll(func(f *pflag.Flag) {
				if f.Name != "help" && (set.Lookup(f.Name) == nil || c.Flags().Lookup("config") == nil) {
					flags = append(flags, "`--"+f.Name+"`")
				}
			})
			slices.Sort(flags)
			own := ""
			if flags != nil {
				own = " " + strings.Join(flags, ", ")
			}
			fmt.Fprintf(&b, "| `%s` | %s |%s |\n", c.CommandPath(), c.Short, own)
		}
		for _, below := range c.Commands() {
			if below.IsAvailableCommand() {
				walk(below)
			}
		}
	}
	walk(rootCommand(nil, nil))
	return b.String()
}

// TestReferenceOfAuth holds the table of the section auth to the keys that the section has.
func TestReferenceOfAuth(t *testing.T) {
	t.Parallel()
	text, err := os.ReadFile(reference)
	if err != nil {
		t.Fatal(err)
	}
	_, section, found := strings.Cut(string(text), "\n## The section auth\n")
	if !found {
		t.Fatal("the document has nothing of the section auth")
	}
	section, _, _ = strings.Cut(section, "\n## ")
	var documented []string
	for _, m := range regexp.MustCompile("(?m)^\\| `([a-z.-]+)` \\|").FindAllStringSubmatch(section, -1) {
		documented = append(documented, m[1])
	}
	written := configfile.Auth{
		Issuers: []auth.Issuer{{
			URL: "https://a", Audiences: []string{"a"}, AudienceClaim: "a", ClientIDs: []string{"a"}, Keys: "a",
			Introspection: &auth.Introspection{URL: "https://a", ClientID: "a", ClientSecret: "a"},
		}},
		Scopes: []string{"a"}, Implies: map[string][]string{"SCOPE": {"a"}}, Claims: []string{"a"},
	}
	var path, keys []string // path are the keys down to that of the line
	for _, line := range written.Lines()[1:] {
		text := strings.TrimLeft(line, " -#")
		key, _, _ := strings.Cut(text, ":")
		depth := 0
		switch indent := len(line) - len(text); {
		case indent >= 8:
			depth = 2
		case indent >= 4:
			depth = 1
		}
		if path = append(path[:depth], key); key != "SCOPE" {
			keys = append(keys, strings.Join(path, "."))
		}
	}
	keys = append(keys, "issuers.introspection.client-secret-file") // which the section is written with in place of a secret
	slices.Sort(keys)
	slices.Sort(documented)
	if !slices.Equal(keys, documented) {
		t.Errorf("the document has\n%q, and the section\n%q", documented, keys)
	}
}
