package main

import (
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strings"

	"github.com/spf13/cobra"
	"github.com/spf13/pflag"

	"github.com/troupe-run/troupe/internal/configfile"
	"github.com/troupe-run/troupe/internal/hostfile"
)

// register makes the table of the settings in groups. Those of flags are flags of cmd, too. Flags,
// --set, the environment and the file of --config set the values of this one table.
func (s *settings) register(cmd *cobra.Command, groups []flagGroup, flags ...string) {
	all := newTable()
	s.declare(all)
	s.table = &settingTable{newTable(), make(map[string]source)}
	s.environ = os.Environ()
	f := cmd.Flags()
	for _, g := range groups {
		for _, name := range g.names {
			s.table.AddFlag(all.Lookup(name))
		}
	}
	for _, name := range flags {
		f.AddFlag(s.table.Lookup(name))
	}
	f.StringVar(&s.config, "config", "", "YAML `file` with any settings; the command line and the environment win ("+configVariable+")")
	f.Var(anySetting{s.table}, "set", "`NAME=VALUE` of any setting, as the file has NAME: VALUE; may be repeated")
	f.BoolVar(&s.helpLimits, "help-limits", false, "list the settings that are no flags: all limits, and the rest")
	cmd.SetFlagErrorFunc(s.table.explainFlag)
	groupedHelp(cmd, slices.Concat(groups, []flagGroup{{"All other settings", []string{"config", "set", "help-limits"}}}))
}

func newTable() *pflag.FlagSet {
	table := pflag.NewFlagSet("", pflag.ContinueOnError)
	table.SortFlags = false
	return table
}

// anySetting is a flag that sets a setting of the table.
type anySetting struct{ table *settingTable }

func (anySetting) String() string { return "" }

// Type names the kind of the flag.
func (anySetting) Type() string { return "setting" }

func (a anySetting) Set(text string) error {
	name, value, ok := strings.Cut(text, "=")
	if !ok {
		return fmt.Errorf("%s: want NAME=VALUE", name)
	}
	f := a.table.Lookup(name)
	if f == nil {
		return fmt.Errorf("%s: there is no such setting%s", name, nearestSetting(a.table, name))
	}
	if err := f.Value.Set(value); err != nil {
		return fmt.Errorf("%s: %w", name, err)
	}
	f.Changed = true
	a.table.sources[name] = source{byCommandLine, "--set " + name}
	return nil
}

// explainFlag returns the error of a command line, without the values in it that may be secrets. Of a
// setting that is no flag it says where it is set.
func (t *settingTable) explainFlag(cmd *cobra.Command, err error) error {
	if missing, ok := errors.AsType[*pflag.NotExistError](err); ok && missing.GetSpecifiedShortnames() == "" {
		f := t.Lookup(missing.GetSpecifiedName())
		if f == nil {
			return fmt.Errorf("%w%s", err, nearestSetting(t, missing.GetSpecifiedName()))
		}
		args, _ := cmd.Context().Value(commandLine{}).([]string)
		value := exampleOf(f, args)
		inFile := value
		if f.Value.Type() == "stringArray" {
			inFile = "[" + value + "]"
		}
		return fmt.Errorf("--%[1]s is no flag: set it in the file of --config, as %[1]s: %[2]s, or by --set %[1]s=%[3]s", f.Name, inFile, value)
	}
	if invalid, ok := errors.AsType[*pflag.InvalidValueError](err); ok && invalid.GetFlag().Name == "set" {
		return fmt.Errorf("--set %w", invalid.Unwrap())
	}
	return err
}

// exampleOf returns the value that arguments have for a setting as if it were a flag. Of a text it
// is the name of what it stands for, as the text may be a secret.
func exampleOf(f *pflag.Flag, args []string) string {
	kind := f.Value.Type()
	if kind == "string" || kind == "stringArray" {
		value, _ := argumentOf(f)
		return value
	}
	for i, arg := range args {
		value, ok := strings.CutPrefix(arg, "--"+f.Name)
		switch {
		case !ok:
		case value != "":
			return strings.TrimPrefix(value, "=")
		case kind == "bool":
			return "true"
		case i+1 < len(args):
			return args[i+1]
		}
	}
	value, _ := argumentOf(f)
	return value
}

// nearestSetting says which setting of the table is like a name that is none.
func nearestSetting(table *settingTable, name string) string {
	var known []string
	table.VisitAll(func(f *pflag.Flag) { known = append(known, f.Name) })
	return configfile.Nearest(name, known)
}

// readSources sets what the command line leaves out to what the environment says, and what that
// leaves out to what the file of --config says.
func (s *settings) readSources() error {
	s.variables = variablesOf(s.environ)
	if err := s.table.readVariables(s.variables); err != nil {
		return err
	}
	shared := s.config == ""
	if shared {
		s.config = s.variables[configVariable]
	}
	if err := s.readFile(shared); err != nil {
		return err
	}
	s.inherited.adopt(s)
	return nil
}

// readFile sets what the command line and the environment leave out to what the file of --config says,
// if there is one. The section auth goes with the flags of auth, and the section backends with that of servers. A shared file is for
// all commands: what another has and this one does not is passed over.
func (s *settings) readFile(shared bool) error {
	if s.config == "" {
		return nil
	}
	whole, err := filepath.Abs(s.config)
	if err != nil {
		return fmt.Errorf("config: %w", err)
	}
	s.config = whole // for what is wrong in it, which a log may say that is read elsewhere
	data, err := os.ReadFile(s.config)
	if err != nil {
		return fmt.Errorf("config: %w", err)
	}
	readers := make(map[string]configfile.Reader)
	if shared {
		all := newTable()
		new(settings).declare(all)
		all.VisitAll(func(f *pflag.Flag) { readers[f.Name] = configfile.PassOver })
	}
	if shared || s.withoutSections {
		readers["auth"], readers["backends"] = configfile.PassOver, configfile.PassOver
	}
	s.table.VisitAll(func(f *pflag.Flag) {
		readers[f.Name] = configfile.ReadSetting(f.Value.Type(), func(text string, line int) error {
			if s.table.sourceOf(f.Name).rank > byFile {
				return nil
			}
			s.table.sources[f.Name] = source{byFile, fmt.Sprintf("%s:%d", s.config, line)}
			return f.Value.Set(text)
		})
	})
	if s.table.Lookup("auth-issuer") != nil && !s.withoutSections {
		readers["auth"] = configfile.ReadAuth(&s.auth, filepath.Dir(s.config), os.ReadFile)
	}
	if s.table.Lookup("servers") != nil && !s.withoutSections {
		from, err := hostfile.SystemSource(s.config)
		if err != nil {
			return fmt.Errorf("config: %w", err)
		}
		readers["backends"] = hostfile.ReadSection(&s.section, from)
	}
	err = configfile.Read(data, readers)
	if at, ok := errors.AsType[*configfile.Error](err); ok {
		return fmt.Errorf("config %s:%d: %w", s.config, at.Line, err)
	}
	if err != nil {
		return fmt.Errorf("config %s: %w", s.config, err)
	}
	return nil
}
