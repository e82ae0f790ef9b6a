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
	table "github.com/troupe-run/troupe/internal/limits"
)

// limits are the settings of the server's limits: one for each row of the table that has
// an option.
type limits []*limit

// limit is the value of one setting; the kind of the row says which field holds it.
type limit struct {
	row   *table.Row
	count count
	rate  perSecond
	size  size
	time  time.Duration
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
			x := &limit{row: row}
			*l = append(*l, x)
			switch row.Kind {
			case table.Count:
				x.count = count(row.Default)
				f.Var(&x.count, row.Setting(), row.Usage)
			case table.Rate:
				x.rate = perSecond(row.Default)
				f.Var(&x.rate, row.Setting(), row.Usage)
			case table.Size:
				x.size = size(row.Default)
				f.Var(&x.size, row.Setting(), row.Usage)
			case table.Time:
				f.DurationVar(&x.time, row.Setting(), time.Duration(row.Default), row.Usage)
			}
		}
	}
}

// value is the flag value of l.
func (l *limit) value() float64 {
	switch l.row.Kind {
	case table.Rate:
		return float64(l.rate)
	case table.Size:
		return float64(l.size)
	case table.Time:
		return float64(l.time)
	}
	return float64(l.count)
}

// text is the value of l as messages write it.
func (l *limit) text() string {
	switch l.row.Kind {
	case table.Rate:
		return l.rate.String()
	case table.Size:
		return l.size.String()
	case table.Time:
		return l.time.String()
	}
	return l.count.String()
}

// check refuses limits that are out of bounds. A size of 0 was not set.
func (l limits) check() error {
	for _, x := range l {
		if x.row.Kind == table.Size && x.size == 0 {
			continue
		}
		if err := x.row.Check(x.value()); err != nil {
			return fmt.Errorf("%s is %s: %w", x.row.Setting(), x.text(), err)
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
