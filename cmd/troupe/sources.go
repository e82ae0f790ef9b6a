package main

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"maps"
	"os"
	"regexp"
	"slices"
	"strings"

	"github.com/spf13/pflag"

	"github.com/troupe-run/troupe/internal/configfile"
)

// settingTable has the settings of a command with their values, and where each value comes from.
type settingTable struct {
	*pflag.FlagSet
	sources map[string]source // of settings that somebody has set; those of flags are not in it
}

// source is where the value of a setting comes from. The zero value is the default.
type source struct {
	rank rank
	at   string // as a person finds it: --listen, --set listen, TROUPE_LISTEN, troupe.yaml:3
}

// rank says which of two values of a setting counts: that of the higher rank.
type rank int

const (
	byDefault rank = iota
	byFile
	byEnvironment
	byCommandLine
)

func (s source) String() string {
	if s.rank == byDefault {
		return "default"
	}
	return s.at
}

// sourceOf returns where the value of a setting comes from.
func (t *settingTable) sourceOf(name string) source {
	if from, set := t.sources[name]; set {
		return from
	}
	if t.Changed(name) {
		return source{byCommandLine, "--" + name}
	}
	return source{}
}

// settingFault is a mistake in settings.
type settingFault struct {
	err   error
	names []string
}

func (f *settingFault) Error() string { return f.err.Error() }
func (f *settingFault) Unwrap() error { return f.err }

// faulty makes err a mistake in the settings with these names.
func faulty(err error, names ...string) error { return &settingFault{err, names} }

// explainSources adds to a mistake in settings where their values come from.
func (t *settingTable) explainSources(err error) error {
	f, ok := errors.AsType[*settingFault](err)
	if !ok {
		return err
	}
	var from []string
	inFile := false
	for _, name := range f.names {
		s := t.sourceOf(name)
		inFile = inFile || s.rank == byFile
		switch {
		case s.rank == byDefault:
		case len(f.names) == 1:
			from = append(from, "set by "+s.at)
		default:
			from = append(from, name+" set by "+s.at)
		}
	}
	if from == nil {
		return err
	}
	err = fmt.Errorf("%w (%s)", err, strings.Join(from, ", "))
	if inFile {
		return placed{err}
	}
	return err
}

// variablePrefix begins the names of the environment variables that settings have.
const variablePrefix = "TROUPE_"

// configVariable has the name of the file where --config does not say it. It and tokenVariable are the
// variables that are no settings: no setting may have the name config or token.
const configVariable = variablePrefix + "CONFIG"

// variableOf is the environment variable of a setting.
func variableOf(setting string) string {
	return variablePrefix + strings.ToUpper(strings.ReplaceAll(setting, "-", "_"))
}

// variablesOf returns the variables of an environment that begin as those of settings do, without
// empty ones: to whoever writes NAME: ${NAME:-} in a file of containers they are not set.
func variablesOf(environ []string) map[string]string {
	all := make(map[string]string)
	for _, line := range environ {
		name, value, _ := strings.Cut(line, "=")
		if _, twice := all[name]; value != "" && !twice && strings.HasPrefix(name, variablePrefix) {
			all[name] = value
		}
	}
	return all
}

// readVariables sets what the command line leaves out to what variables say.
func (t *settingTable) readVariables(variables map[string]string) (err error) {
	t.VisitAll(func(f *pflag.Flag) {
		name := variableOf(f.Name)
		text := variables[name]
		if err != nil || text == "" || t.sourceOf(f.Name).rank > byEnvironment {
			return
		}
		if err = setVariable(f, text); err != nil {
			err = fmt.Errorf("%s: %w", name, err)
		}
		t.sources[f.Name] = source{byEnvironment, name}
	})
	return err
}

// setVariable sets a setting to the text of its variable, which has all items of a list with commas
// between them.
func setVariable(f *pflag.Flag, text string) error {
	switch f.Value.Type() {
	case "bool":
		if f.Value.Set(text) != nil { // its error would repeat the text, which may be a secret
			return errors.New("want true or false")
		}
		return nil
	case "stringArray":
		for item := range strings.SplitSeq(text, ",") {
			if item = strings.TrimSpace(item); item == "" {
				return errors.New("an item of the list is empty: want items with commas between them")
			}
			if err := f.Value.Set(item); err != nil {
				return err
			}
		}
		return nil
	}
	return f.Value.Set(text)
}

// kubernetesName matches the names of most variables that Kubernetes sets in each container for a Service whose name is
// troupe, or begins with troupe-: TROUPE_SERVICE_HOST, TROUPE_PORT_8080_TCP_ADDR. kubernetesPort matches the names of the
// others, such as TROUPE_PORT, which a person may set, too; kubernetesURL matches their values.
var (
	kubernetesName = regexp.MustCompile(`^` + variablePrefix + `([A-Z0-9_]+_)?(SERVICE_HOST|SERVICE_PORT(_[A-Z0-9_]+)?|PORT_[0-9]+_(TCP|UDP|SCTP)(_(PROTO|PORT|ADDR))?)$`)
	kubernetesPort = regexp.MustCompile(`^` + variablePrefix + `([A-Z0-9_]+_)?PORT$`)
	kubernetesURL  = regexp.MustCompile(`^(tcp|udp|sctp)://`)
)

// isOfKubernetes reports whether Kubernetes sets a variable for a Service.
func isOfKubernetes(name, value string) bool {
	return kubernetesName.MatchString(name) || kubernetesPort.MatchString(name) && kubernetesURL.MatchString(value)
}

// unknownVariable is an environment variable that looks like that of a setting, and is none.
type unknownVariable struct {
	name    string
	nearest string // "; did you mean NAME?", or "" if no setting is like it
}

// unknownVariables returns those of variables that no command reads, by their names. What Kubernetes
// sets is none of them.
func unknownVariables(variables map[string]string) (all []unknownVariable) {
	table := newTable()
	new(settings).declare(table)
	var names []string // without the prefix, in which all are alike
	known := map[string]bool{configVariable: true, tokenVariable: true}
	table.VisitAll(func(f *pflag.Flag) {
		name := variableOf(f.Name)
		known[name] = true
		names = append(names, strings.TrimPrefix(name, variablePrefix))
	})
	for _, name := range slices.Sorted(maps.Keys(variables)) {
		if known[name] || isOfKubernetes(name, variables[name]) {
			continue
		}
		nearest := configfile.Nearest(strings.TrimPrefix(name, variablePrefix), names)
		all = append(all, unknownVariable{name, strings.Replace(nearest, "did you mean ", "did you mean "+variablePrefix, 1)})
	}
	return all
}

// logUnknown logs the variables that look like those of settings and are none. One that no setting is
// like may be somebody else's.
func logUnknown(log *slog.Logger, variables map[string]string) {
	for _, v := range unknownVariables(variables) {
		level := slog.LevelWarn
		if v.nearest == "" {
			level = slog.LevelInfo
		}
		log.Log(context.Background(), level, "this environment variable has no effect: there is no such setting"+v.nearest, "variable", v.name)
	}
}

// dataDirectory is the data directory that a command names, or else the environment, or the default.
func dataDirectory(named string) (string, error) {
	if named != "" {
		return named, nil
	}
	if dir := os.Getenv(variableOf("data")); dir != "" {
		return dir, nil
	}
	return defaultData()
}
