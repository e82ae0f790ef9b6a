package main

import (
	"fmt"
	"reflect"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/spf13/pflag"

	"github.com/troupe-run/troupe"
	"github.com/troupe-run/troupe/internal/configfile"
	table "github.com/troupe-run/troupe/internal/limits"
)

// limits are the settings of the server's limits: one for each row of the table that has
// an option.
type limits []limit

// limit is one of these settings.
type limit struct {
	row   *table.Row
	value func() float64
	flag  *pflag.Flag
}

// limitGroups returns the limits that no other group shows, in the order of
// the table.
func limitGroups(shown []flagGroup) []flagGroup {
	titles := map[table.Section]string{
		table.Session:   "A session; a number of 0 is no limit",
		table.Principal: "A principal, or the address of anonymous clients; 0 is no limit",
	}
	var groups []flagGroup
	for _, s := range table.Sections() {
		g := flagGroup{title: string(s)}
		if titles[s] != "" {
			g.title = titles[s]
		}
		for row := range table.Settings(s) {
			if !slices.ContainsFunc(shown, func(other flagGroup) bool { return slices.Contains(other.names, row.Setting()) }) {
				g.names = append(g.names, row.Setting())
			}
		}
		if g.names != nil {
			groups = append(groups, g)
		}
	}
	return groups
}

// declare enters the limits in a table of settings, with their defaults.
func (l *limits) declare(f *pflag.FlagSet) {
	for _, s := range table.Sections() {
		for row := range table.Settings(s) {
			var value func() float64
			switch row.Kind {
			case table.Count:
				value = declareLimit(f, row, new(count))
			case table.Rate:
				value = declareLimit(f, row, new(perSecond))
			case table.Size:
				value = declareLimit(f, row, new(size))
			case table.Time:
				d := f.Duration(row.Setting(), time.Duration(row.Default), row.Usage)
				value = func() float64 { return float64(*d) }
			}
			*l = append(*l, limit{row, value, f.Lookup(row.Setting())})
		}
	}
}

// declareLimit enters a limit in a table of settings, and returns what reads its value.
func declareLimit[T count | perSecond | size, P interface {
	*T
	pflag.Value
}](f *pflag.FlagSet, row *table.Row, v P) func() float64 {
	*v = T(row.Default)
	f.Var(v, row.Setting(), row.Usage)
	return func() float64 { return float64(*v) }
}

// check refuses limits that are out of bounds. A size of 0 was not set.
func (l limits) check() error {
	for _, x := range l {
		if x.row.Kind == table.Size && x.value() == 0 {
			continue
		}
		if err := x.row.Check(x.value()); err != nil {
			return faulty(fmt.Errorf("%s is %s: %w", x.flag.Name, x.flag.Value, err), x.flag.Name)
		}
	}
	return nil
}

// options sets the limits in o, where 0 means the default and a negative number no
// limit. The rows name the fields, so that a new limit needs no line here.
func (l limits) options(o *troupe.Options) {
	fields := reflect.ValueOf(o).Elem()
	for _, x := range l {
		v := x.value()
		if v == 0 && x.row.None {
			v = -1
		}
		field := fields
		for name := range strings.SplitSeq(x.row.Option, ".") {
			field = field.FieldByName(name)
		}
		if field.CanFloat() {
			field.SetFloat(v)
		} else {
			field.SetInt(int64(v))
		}
	}
}

// count is a whole number that is not negative.
type count int

// Set parses text.
func (c *count) Set(text string) error {
	n, err := strconv.ParseInt(text, 10, 32)
	if err != nil || n < 0 {
		return fmt.Errorf("%q is not a number: want a whole number from 0 to 2147483647", text)
	}
	*c = count(n)
	return nil
}

func (c *count) String() string { return strconv.Itoa(int(*c)) }

// Type names the kind of the flag.
func (c *count) Type() string { return "number" }

// perSecond is a rate.
type perSecond float64

// Set parses text.
func (r *perSecond) Set(text string) error {
	n, err := strconv.ParseFloat(text, 64)
	if err != nil || !(n >= 0 && n <= 1e9) || n > 0 && n < 1e-6 {
		return fmt.Errorf("%q is not a rate: want a number per second, such as 100 or 0.5, or 0 for no limit", text)
	}
	*r = perSecond(n)
	return nil
}

func (r *perSecond) String() string { return strconv.FormatFloat(float64(*r), 'f', -1, 64) }

// Type names the kind of the flag.
func (r *perSecond) Type() string { return "rate" }

// size is a number of bytes as a person writes it: 512, 4MiB, 8GiB, 10GB. Zero
// means the default.
type size int64

// Set parses text.
func (s *size) Set(text string) error {
	n, ok := configfile.ParseSize(text)
	if !ok || n == 0 {
		return fmt.Errorf("%q is not a size: want a whole number above 0 with a unit, such as 8GiB or 500MB", text)
	}
	*s = size(n)
	return nil
}

func (s *size) String() string {
	if *s == 0 {
		return ""
	}
	return configfile.Size(int64(*s))
}

// Type names the kind of the flag.
func (s *size) Type() string { return "size" }
