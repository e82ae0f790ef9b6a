package limits

import (
	"errors"
	"fmt"
	"iter"
	"reflect"
	"strconv"
	"strings"
	"time"
	"unicode"
)

// A Kind is what a limit counts.
type Kind uint8

// The kinds.
const (
	Count Kind = iota // a whole number
	Size              // bytes
	Rate              // a number per second
	Time              // nanoseconds, as time.Duration has them
)

// A Section is a part of docs/limits.md, and of the help of the command.
type Section string

// The sections in the order in which they are shown.
const (
	Request   Section = "A request"
	Session   Section = "A session"
	Principal Section = "A principal"
	Retried   Section = "Requests that are sent again (2026-07-28)"
	Task      Section = "A task"
	Stream    Section = "An event stream"
	Node      Section = "The node"
)

// Sections are all sections in their order.
func Sections() []Section { return []Section{Request, Session, Principal, Retried, Task, Stream, Node} }

// A Row is one limit.
type Row struct {
	Section Section
	// Name is what is limited, for the document.
	Name string
	// Option is the field of troupe.Options with its group, such as Limits.MaxURI; it is empty
	// for a fixed limit.
	Option string
	Kind   Kind
	// Default is the value that 0 stands for. Least and Most bound the values of the option; a
	// Most of 0 means no bound. Times are nanoseconds.
	Default, Least, Most int64
	// None says that the limit can be switched off: by a negative option, and by a setting of
	// the command of 0.
	None bool
	// Shown is the default in words, if Default alone does not say it. The setting then has no
	// value until it is set.
	Shown string
	// Beyond says what happens beyond the limit, for the document.
	Beyond string
	// Counted is the label of the counter, empty if the refusals are not counted; By is the
	// counter.
	Counted string
	By      Counter
	// Within says that it is counted as a refusal, too, if a request is refused that the transport
	// has let in.
	Within bool
	// Usual says that the limit is hit in the usual course of things, and refuses nobody. It is
	// counted and not logged.
	Usual bool
	// Of is the option that the limit is a share of, or follows, if it has none of its own.
	Of string
	// Status and Text are those of the error of a refused request, which package refusal makes;
	// they are zero if the limit refuses none. Status is for requests without a session.
	Status int
	Text   string
	// Usage is one sentence for the help of the command, with the name of the value in
	// backquotes.
	Usage string

	named string // its setting, where that has not the name of the option
	again bool   // a second row of an option in the document
}

// A Counter is the metric that counts how often a limit was hit.
type Counter uint8

// The counters.
const (
	Refusals Counter = iota // troupe.refusals
	HTTP                    // troupe.http.refused
	Cuts                    // troupe.stream.cut
)

// Metric is the name of the counter.
func (c Counter) Metric() string {
	return [...]string{"troupe.refusals", "troupe.http.refused", "troupe.stream.cut"}[c]
}

// table has all rows in the order of their declaration.
var table []*Row

// All yields the rows of a section.
func All(s Section) iter.Seq[*Row] {
	return func(yield func(*Row) bool) {
		for _, r := range table {
			if r.Section == s && !yield(r) {
				return
			}
		}
	}
}

// Settings yields the rows of a section that have a setting, each setting once.
func Settings(s Section) iter.Seq[*Row] {
	return func(yield func(*Row) bool) {
		for r := range All(s) {
			if r.Option != "" && !r.again && !yield(r) {
				return
			}
		}
	}
}

// Setting is the name of the option as a setting of the command, on its command line and in its
// configuration file: Limits.MaxURI is max-uri. It is empty without an option.
func (r *Row) Setting() string {
	if r.named != "" {
		return r.named
	}
	return settingOf(r.Option)
}

// setBy returns the option that sets the limit, and the setting; they are empty for a fixed limit.
func (r *Row) setBy() (option, setting string) {
	if r.Option == "" {
		return r.Of, settingOf(r.Of)
	}
	return r.Option, r.Setting()
}

// RowOf returns the row whose hits a counter has under a label, nil if no limit has that label.
func RowOf(by Counter, label string) *Row {
	for _, r := range table {
		if r.By == by && r.Counted == label {
			return r
		}
	}
	return nil
}

// settingOf is the setting of an option whose row names no other.
func settingOf(option string) string {
	var b strings.Builder
	runes := []rune(option[strings.LastIndexByte(option, '.')+1:])
	for i, c := range runes {
		begins := i > 0 && unicode.IsUpper(c) && (unicode.IsLower(runes[i-1]) || i+1 < len(runes) && unicode.IsLower(runes[i+1]))
		if begins {
			b.WriteByte('-')
		}
		b.WriteRune(unicode.ToLower(c))
	}
	return b.String()
}

// Check returns an error for a value out of bounds. 0 passes if the limit can be switched
// off; otherwise it is a value like others.
func (r *Row) Check(v float64) error {
	switch {
	case v == 0 && r.None:
		return nil
	case v < float64(r.Least) && r.Most != 0 && r.Kind == Count:
		return fmt.Errorf("it must be from %d to %d", r.Least, r.Most)
	case v < float64(r.Least):
		return fmt.Errorf("it must be at least %s", r.formatValue(r.Least))
	case r.Most != 0 && v > float64(r.Most) && r.Kind == Count:
		return fmt.Errorf("it must be from %d to %d", r.Least, r.Most)
	case r.Most != 0 && v > float64(r.Most):
		return fmt.Errorf("it must be at most %s", r.formatValue(r.Most))
	}
	return nil
}

// formatValue is a value as messages and settings have it: 64KiB, 1m30s, 1000.
func (r *Row) formatValue(v int64) string {
	switch r.Kind {
	case Time:
		return time.Duration(v).String()
	case Size:
		n, unit := inUnits(v)
		return strconv.FormatInt(n, 10) + unit
	}
	return strconv.FormatInt(v, 10)
}

// inUnits returns a number of bytes in the largest unit that divides it.
func inUnits(v int64) (int64, string) {
	for i, unit := range []string{"TiB", "GiB", "MiB", "KiB"} {
		if one := int64(1) << (40 - 10*i); v >= one && v%one == 0 {
			return v / one, unit
		}
	}
	return v, "B"
}

// A Limit is a row whose values have the type of their option.
type Limit[T int | int64 | float64 | time.Duration] struct{ *Row }

// add enters a row.
func add[T int | int64 | float64 | time.Duration](r Row) Limit[T] {
	table = append(table, &r)
	return Limit[T]{&r}
}

// addSecondRow enters a further row of an option, for another section of the document.
func addSecondRow(r Row) bool {
	r.again = true
	table = append(table, &r)
	return true
}

// Value is the default; for a limit without an option that is the limit.
func (l Limit[T]) Value() T { return T(l.Default) }

// Or is the limit that an option sets: the default for 0 and, if the limit cannot be
// switched off, also for a negative value.
func (l Limit[T]) Or(set T) T {
	if set == 0 || set < 0 && !l.None {
		return T(l.Default)
	}
	return set
}

// Settle sets each option of a group to its default if it is 0, and returns an error that names
// each option whose value is out of bounds. A group is what Row.Option begins with: "Limits." is
// for a pointer to troupe.Limits, and "" for one to troupe.Options.
func Settle(group string, options any) error {
	var faults []error
	for _, r := range table {
		name, ok := strings.CutPrefix(r.Option, group)
		if !ok || name == "" || r.again {
			continue
		}
		faults = append(faults, r.settle(optionOf(reflect.ValueOf(options).Elem(), name)))
	}
	return errors.Join(faults...)
}

func (r *Row) settle(set reflect.Value) error {
	v := floatOf(set)
	switch {
	case v == 0:
		set.Set(reflect.ValueOf(r.Default).Convert(set.Type()))
		return nil
	case v < 0 && r.None:
		return nil
	}
	if err := r.Check(v); err != nil {
		return fmt.Errorf("%s is %v: %w", r.Option, set, err)
	}
	return nil
}
