package main

import (
	"reflect"
	"strings"
	"testing"

	"github.com/spf13/cobra"

	"github.com/troupe-run/troupe"
	table "github.com/troupe-run/troupe/internal/limits"
)

func optionsOf(t *testing.T, file string, args ...string) troupe.Options {
	t.Helper()
	s, err := parsed(t, file, append([]string{"--memory"}, args...)...)
	if err != nil {
		t.Fatalf("%q, file %q: %v", args, file, err)
	}
	return s.options()
}

// TestLimitDefaults checks that each flag has the default of its row, which stands in docs/limits.md.
func TestLimitDefaults(t *testing.T) {
	t.Parallel()
	var s settings
	s.register(&cobra.Command{}, settingGroups)
	var got troupe.Options
	s.limits.options(&got)
	want := troupe.Options{Limits: troupe.Limits{PingEvery: -1}} // 0 as a flag is none
	if err := table.Settle("", &want); err != nil {
		t.Fatal(err)
	}
	if !reflect.DeepEqual(got, want) {
		t.Errorf("got\n%+v, want\n%+v", got, want)
	}
}

// TestEachLimitCanBeSet sets every limit by --set and by file. Both must have the same
// effect, and each limit an effect of its own.
func TestEachLimitCanBeSet(t *testing.T) {
	t.Parallel()
	values := map[string]string{"number": "7", "rate": "7.5", "size": "7MiB", "duration": "7s"} // by kind
	var s settings
	s.register(&cobra.Command{}, settingGroups)
	effects := make(map[string]string)
	for _, g := range limitGroups(nil) {
		for _, name := range g.names {
			value, ok := values[s.table.Lookup(name).Value.Type()]
			if !ok {
				t.Errorf("%s is of the kind %s", name, s.table.Lookup(name).Value.Type())
				continue
			}
			got := optionsOf(t, "", "--set", name+"="+value)
			if byFile := optionsOf(t, name+": "+value+"\n"); !reflect.DeepEqual(got, byFile) {
				t.Errorf("%s: the file sets\n%+v, --set\n%+v", name, byFile, got)
			}
			changed := differing(optionsOf(t, ""), got)
			if len(changed) != 1 || effects[changed[0]] != "" {
				t.Errorf("%s sets %q, which %s does", name, changed, effects[strings.Join(changed, "")])
				continue
			}
			effects[changed[0]] = name
		}
	}
	if len(effects) < 25 {
		t.Errorf("%d limits can be set", len(effects))
	}
}

// differing returns the names of the fields in which a and b differ.
func differing(a, b troupe.Options) (names []string) {
	for _, f := range reflect.VisibleFields(reflect.TypeFor[troupe.Options]()) {
		va, vb := reflect.ValueOf(a).FieldByIndex(f.Index), reflect.ValueOf(b).FieldByIndex(f.Index)
		if f.Type.Kind() != reflect.Struct {
			if !reflect.DeepEqual(va.Interface(), vb.Interface()) {
				names = append(names, f.Name)
			}
			continue
		}
		for i := range f.Type.NumField() { // a group
			if !reflect.DeepEqual(va.Field(i).Interface(), vb.Field(i).Interface()) {
				names = append(names, f.Name+"."+f.Type.Field(i).Name)
			}
		}
	}
	return names
}

// fieldOf returns the field of o that an option names, such as Limits.MaxURI.
func fieldOf(o troupe.Options, option string) reflect.Value {
	field := reflect.ValueOf(o)
	for name := range strings.SplitSeq(option, ".") {
		field = field.FieldByName(name)
	}
	return field
}

func TestZeroIsNoLimit(t *testing.T) {
	t.Parallel()
	for _, name := range []string{"call-rate", "principal-rate", "calls-per-session", "calls-per-principal", "calls-per-node", "sessions-per-principal",
		"streams-per-session", "streams-per-principal", "connections-per-address", "pending-per-session", "pending-per-principal", "subscriptions-per-session", "open-tasks-per-principal", "open-tasks-per-node"} {
		got := optionsOf(t, "", "--set", name+"=0")
		field := differing(optionsOf(t, ""), got)
		if len(field) != 1 {
			t.Fatalf("%s sets %q", name, field)
		}
		if v := fieldOf(got, field[0]); v.CanInt() && v.Int() != -1 || v.CanFloat() && v.Float() != -1 {
			t.Errorf("%s of 0 is %v, want -1", name, v)
		}
	}
}

func TestRefusedLimits(t *testing.T) {
	t.Parallel()
	for _, text := range []string{
		"call-rate=-1", "call-rate=NaN", "call-rate=Inf", "call-rate=1e-9", "call-rate=fast", "principal-rate=2e9",
		"calls-per-session=-1", "calls-per-node=1.5", "calls-per-node=3000000000", "call-burst=many",
		"max-depth=0", "max-depth=1025", "max-batch=0", "replay-events=1001", "replay-events=0",
		"max-header=0", "max-header=2GiB", "max-queued=2GiB", "replay-bytes=2GiB",
		"max-call=0s", "max-ask=-1s", "session-max=0s", "body-timeout=0s", "write-timeout=1us", "drain-wait=0s", "ping-every=900ms",
	} {
		name, _, _ := strings.Cut(text, "=")
		if _, err := parsed(t, "", "--memory", "--set", text); err == nil || !strings.Contains(err.Error(), name) {
			t.Errorf("%s: error is %v, want one that names the setting", text, err)
		}
	}
	for _, file := range []string{"call-rate: fast\n", "calls-per-node: \"7\"\n", "calls-per-node: 7.5\n", "call-rate: -1\n", "call-rate: [1]\n", "max-batch: true\n"} {
		if _, err := parsed(t, file, "--memory"); err == nil || !strings.Contains(err.Error(), strings.Split(file, ":")[0]) {
			t.Errorf("file %q: error is %v, want one that names the setting", file, err)
		}
	}
}
