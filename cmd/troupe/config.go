package main

import (
	"bufio"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net"
	"os"
	"slices"
	"strings"

	"github.com/spf13/cobra"
	"github.com/spf13/pflag"

	"github.com/troupe-run/troupe"
	"github.com/troupe-run/troupe/internal/configfile"
)

// configCommand looks at the settings with which troupe serve would start.
func configCommand(stdout, stderr io.Writer) *cobra.Command {
	cmd := &cobra.Command{
		Use:   "config",
		Short: "Check the settings of troupe serve, and show where each comes from",
		Long: "Reads the settings as troupe serve does: the command line, else the environment, else the file of --config or\n" +
			"TROUPE_CONFIG, else the defaults. Nothing is served, and no data directory is opened.",
	}
	cmd.AddCommand(configCheck(stdout, stderr), configShow(stdout))
	return cmd
}

func configCheck(stdout, stderr io.Writer) *cobra.Command {
	var s settings
	cmd := &cobra.Command{
		Use:   "check [flags] [-- COMMAND ARGS]",
		Short: "Say whether troupe serve would take its settings",
		Long: "Reads all settings of troupe serve, and the files that they name, and says what is wrong and where it was set, or\n" +
			"ok. Whether other processes leave it the data directory and the addresses shows when it starts. Exit codes: 0 if\n" +
			"the settings are good and no backend would be left out, 2 otherwise. Programs of backends that are not there, and\n" +
			"environment variables that look like settings and are none, are named.",
		Example: `  troupe config check --config /etc/troupe.yaml && systemctl reload troupe
  docker run --rm --env-file troupe.env IMAGE config check
  troupe config check -- npx -y @modelcontextprotocol/server-everything`,
		RunE: func(cmd *cobra.Command, args []string) error {
			var err error
			if s.command, err = commandBehind(cmd, args); err != nil {
				return err
			}
			if s.helpLimits {
				return s.table.writeSettings(cmd)
			}
			if err := s.readSettings(); err != nil {
				return err
			}
			for _, v := range unknownVariables(s.variables) {
				fmt.Fprintf(stderr, "%s has no effect: there is no such setting%s\n", v.name, v.nearest)
			}
			if err := checkBackends(&s, stderr); err != nil {
				return err
			}
			for _, check := range []func(*settings) error{checkExposed, checkOptions, checkFiles} {
				if err := s.table.explainSources(check(&s)); err != nil {
					return err
				}
			}
			_, err = fmt.Fprintln(stdout, "ok")
			return err
		},
	}
	cmd.Flags().SetInterspersed(false) // as those of serve
	s.register(cmd, settingGroups, serveFlags...)
	return cmd
}

// checkExposed refuses an address that serve would not listen on.
func checkExposed(s *settings) error {
	o := s.options()
	if !isExposed(&o) {
		return nil
	}
	return faulty(errors.New(explain(troupe.ErrExposed, o).Error()), "listen")
}

// isExposed reports whether others than this machine reach the address, and anybody is let in who was not to be.
func isExposed(o *troupe.Options) bool {
	host, _, _ := net.SplitHostPort(o.Listen)
	return o.Auth == nil && !o.AllowAnonymous && !isLoopback(host)
}

// checkOptions has the library judge what it would judge at the start.
func checkOptions(s *settings) error {
	err := s.options().Check()
	if err == nil {
		return nil
	}
	var names []string
	for option, setting := range map[string]string{"HTTP.PublicURL": "public-url", "Shared.Weights": "weight", "nats": "nats"} {
		if strings.Contains(err.Error(), option) {
			names = append(names, setting)
		}
	}
	slices.Sort(names)
	return faulty(errors.New(oneLine(err)), names...)
}

// checkFiles opens the files with the access to NATS servers, which only the store reads.
func checkFiles(s *settings) error {
	for _, name := range []string{"nats-creds", "nats-nkey", "nats-ca", "nats-cert", "nats-key"} {
		path := s.table.Lookup(name).Value.String()
		if path == "" {
			continue
		}
		f, err := os.Open(path)
		if err != nil {
			return faulty(fmt.Errorf("%s cannot be read: %w", name, err), name)
		}
		_ = f.Close()
	}
	return nil
}

func configShow(stdout io.Writer) *cobra.Command {
	var s settings
	var asJSON bool
	cmd := &cobra.Command{
		Use:   "show [flags]",
		Short: "Show the settings of troupe serve, and where each comes from",
		Long: "Shows the value of each setting of troupe serve, as a file for --config, and behind it where the value comes from:\n" +
			"default, the line of a file, an environment variable, or a flag. Secrets are left out: the lines of settings that\n" +
			"have one are comments, and so are those of settings without a value.",
		Example: `  troupe config show | grep -v '# default$'
  troupe config show --config /etc/troupe.yaml --json | jq '.[] | select(.source != "default")'`,
		Args: cobra.NoArgs,
		RunE: func(cmd *cobra.Command, _ []string) error {
			if s.helpLimits {
				return s.table.writeSettings(cmd)
			}
			if err := s.readSettings(); err != nil {
				return err
			}
			if asJSON {
				return printJSON(stdout, shownSettings(&s))
			}
			return writeFile(stdout, &s)
		},
	}
	s.register(cmd, settingGroups, serveFlags...)
	cmd.Flags().BoolVar(&asJSON, "json", false, "print JSON")
	groupedHelp(cmd, slices.Concat(settingGroups, []flagGroup{{"All other settings", []string{"config", "set", "help-limits"}}, {"Output", []string{"json"}}}))
	return cmd
}

// shownSetting is a setting as troupe config shows it.
type shownSetting struct {
	Name   string `json:"name"`
	Value  any    `json:"value"` // nil if it has none
	Source string `json:"source"`
	Secret bool   `json:"secret,omitempty"` // a secret is left out of the value
}

// shownSettings returns the settings in the order of the help, and at the end the sections auth and backends if there
// are any.
func shownSettings(s *settings) (all []shownSetting) {
	for _, g := range settingGroups {
		for _, name := range g.names {
			all = append(all, showSetting(s, s.table.Lookup(name)))
		}
	}
	if section := shownAuth(s); section.Lines() != nil {
		all = append(all, shownSetting{Name: "auth", Value: section, Source: fmt.Sprintf("%s:%d", s.config, section.Line)})
	}
	if s.section.Path != "" {
		all = append(all, shownSetting{Name: "backends", Value: s.section.Backends, Source: s.section.Path})
	}
	return all
}

// shownAuth is the section auth without what settings beside it replace.
func shownAuth(s *settings) *configfile.Auth {
	section := s.auth
	if len(s.authIssuers) > 0 {
		section.Issuers = nil
	}
	if len(s.authScopes) > 0 {
		section.Scopes = nil
	}
	return &section
}

func showSetting(s *settings, f *pflag.Flag) shownSetting {
	shown := shownSetting{Name: f.Name, Source: s.table.sourceOf(f.Name).String()}
	text := f.Value.String()
	switch kind := f.Value.Type(); {
	case f.Name == "nats-token" && text != "":
		shown.Secret = true
	case f.Name == "nats" && strings.Contains(text, "@"):
		if shown.Secret = true; s.nats.String() != "" {
			shown.Value = s.nats.String()
		}
	case kind == "bool":
		shown.Value = text == "true"
	case kind == "number" || kind == "rate":
		shown.Value = json.Number(text)
	case kind == "stringArray":
		if items := f.Value.(interface{ GetSlice() []string }).GetSlice(); len(items) > 0 {
			shown.Value = items
		}
	case text == "":
	case kind == "revisions":
		shown.Value = strings.Split(text, ",")
	case kind == "duration":
		shown.Value = shortTime(text)
	default:
		shown.Value = text
	}
	return shown
}

// writeFile writes the settings as a file for --config.
func writeFile(w io.Writer, s *settings) error {
	b := bufio.NewWriter(w)
	for _, g := range settingGroups {
		fmt.Fprintf(b, "# %s.\n", g.title)
		for _, name := range g.names {
			f := s.table.Lookup(name)
			shown := showSetting(s, f)
			comment, why := "", ""
			switch {
			case shown.Secret:
				comment, why = "# ", ", and a secret is left out"
			case shown.Value == nil:
				comment = "# "
			}
			fmt.Fprintf(b, "%s%s: %s# %s%s\n", comment, name, valueInFile(f.Value.Type(), shown.Value), shown.Source, why)
		}
		fmt.Fprintln(b)
	}
	section := shownAuth(s)
	if lines := section.Lines(); lines != nil {
		fmt.Fprintf(b, "# %s:%d\n%s\n", s.config, section.Line, strings.Join(lines, "\n"))
	}
	if s.section.Path != "" {
		fmt.Fprintln(b, strings.Join(sectionLines(&s.section), "\n"))
	}
	return b.Flush()
}

// valueInFile writes a value of a kind as a file has it, with a space behind it. Sizes and times need no quotes.
func valueInFile(kind string, value any) string {
	switch v := value.(type) {
	case nil:
		return ""
	case string:
		if kind == "string" {
			v = configfile.Text(v)
		}
		return v + " "
	case []string:
		return configfile.Texts(v) + " "
	}
	return fmt.Sprint(value) + " "
}
