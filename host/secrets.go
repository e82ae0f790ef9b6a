package host

import (
	"encoding/json"
	"fmt"
	"log/slog"
	"maps"
	"slices"
	"strings"
)

// Secrets are named values that must not be shown, such as the variables of an environment. Printed, logged and written
// as JSON they are their names alone. Read a value by its name.
type Secrets map[string]string

// Hidden are texts that must not be shown. Printed, logged and written as JSON each is a mask.
type Hidden []string

// mask stands for a value.
const mask = "***"

// String returns a mask for each text.
func (h Hidden) String() string { return strings.Join(h.masked(), " ") }

// GoString is String for %#v.
func (h Hidden) GoString() string { return fmt.Sprintf("host.Hidden(%q)", h.String()) }

// MarshalJSON writes a list with a mask for each text.
func (h Hidden) MarshalJSON() ([]byte, error) { return json.Marshal(h.masked()) }

// MarshalYAML returns a list with a mask for each text.
func (h Hidden) MarshalYAML() (any, error) { return h.masked(), nil }

// LogValue is String for package slog.
func (h Hidden) LogValue() slog.Value { return slog.StringValue(h.String()) }

func (h Hidden) masked() []string {
	if h == nil {
		return nil
	}
	return slices.Repeat([]string{mask}, len(h))
}

// String returns the names in their order, each with a mask for its value.
func (s Secrets) String() string {
	var b strings.Builder
	for i, name := range slices.Sorted(maps.Keys(s)) {
		if i > 0 {
			b.WriteByte(' ')
		}
		b.WriteString(name + "=" + mask)
	}
	return b.String()
}

// GoString is String for %#v.
func (s Secrets) GoString() string { return fmt.Sprintf("host.Secrets(%q)", s.String()) }

// MarshalJSON writes an object with a mask for each value.
func (s Secrets) MarshalJSON() ([]byte, error) { return json.Marshal(s.masked()) }

// MarshalYAML returns a mapping with a mask for each value.
func (s Secrets) MarshalYAML() (any, error) { return s.masked(), nil }

// LogValue is String for package slog.
func (s Secrets) LogValue() slog.Value { return slog.StringValue(s.String()) }

func (s Secrets) masked() map[string]string {
	if s == nil {
		return nil
	}
	shown := make(map[string]string, len(s))
	for name := range s {
		shown[name] = mask
	}
	return shown
}
