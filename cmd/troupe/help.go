package main

import (
	"fmt"
	"io"
	"strings"

	"github.com/spf13/cobra"
	"github.com/spf13/pflag"
)

// flagGroup is a heading of the help and the flags, or settings, below it.
type flagGroup struct {
	title string
	names []string
}

// groupedHelp makes the help of cmd show its flags in groups.
func groupedHelp(cmd *cobra.Command, groups []flagGroup) {
	cmd.SetHelpFunc(func(cmd *cobra.Command, _ []string) {
		w := cmd.OutOrStdout()
		fmt.Fprintf(w, "%s\n\nUsage:\n  %s\n\nExamples:\n%s\n", cmd.Long, cmd.UseLine(), cmd.Example)
		writeGroups(w, groups, "--", cmd.Flags().Lookup)
	})
}

// wantOne takes one argument, which names one of what a command lists.
func wantOne(what, lister string) cobra.PositionalArgs {
	return func(_ *cobra.Command, args []string) error {
		switch len(args) {
		case 0:
			return fmt.Errorf("which %s? %s lists them", what, lister)
		case 1:
			return nil
		}
		return fmt.Errorf("one %s at a time: there are %d words", what, len(args))
	}
}

// helpWidth is how wide the lines of flags and settings are, unless a word is wider.
const helpWidth = 110

// writeGroups writes what lookup has of groups.
func writeGroups(w io.Writer, groups []flagGroup, dashes string, lookup func(name string) *pflag.Flag) {
	for _, g := range groups {
		width := 24
		var flags []*pflag.Flag
		for _, name := range g.names {
			if f := lookup(name); f != nil {
				flags = append(flags, f)
				left, _ := flagLine(f, dashes)
				width = max(width, len(left))
			}
		}
		if flags == nil {
			continue
		}
		fmt.Fprintf(w, "\n%s:\n", g.title)
		for _, f := range flags {
			left, usage := flagLine(f, dashes)
			fmt.Fprintf(w, "  %-*s %s\n", width, left, wrapText(usage, helpWidth-width-3, strings.Repeat(" ", width+3)))
		}
	}
	io.WriteString(w, "\nValues in parentheses are the defaults. Times are written as 250ms, 90s, 10m or 72h, sizes as 500MB or 8GiB.\n")
}

// wrapText breaks lines before words that would make them wider, and begins the next with indent.
func wrapText(text string, width int, indent string) string {
	var b strings.Builder
	line := 0
	for word := range strings.FieldsSeq(text) {
		switch {
		case b.Len() == 0:
		case line+1+len(word) > width:
			b.WriteString("\n" + indent)
			line = 0
		default:
			b.WriteByte(' ')
			line++
		}
		b.WriteString(word)
		line += len(word)
	}
	return b.String()
}

// flagLine is a flag with the name of its value, and what it does.
func flagLine(f *pflag.Flag, dashes string) (left, usage string) {
	left = dashes + f.Name
	arg, usage := argumentOf(f)
	if arg != "" {
		left += " " + arg
	}
	if v := f.DefValue; v != "" && v != "false" && v != "[]" && !strings.HasSuffix(usage, ")") {
		usage += " (" + shortTime(v) + ")"
	}
	return left, usage
}

// argumentOf is the name of the value of a flag, and what the flag does.
func argumentOf(f *pflag.Flag) (arg, usage string) {
	before, rest, _ := strings.Cut(f.Usage, "`")
	arg, after, _ := strings.Cut(rest, "`")
	return strings.ToUpper(arg), before + arg + after
}

// shortTime writes 72h0m0s as 72h.
func shortTime(text string) string {
	if s, ok := strings.CutSuffix(text, "m0s"); ok {
		text = s + "m"
	}
	if s, ok := strings.CutSuffix(text, "h0m"); ok {
		text = s + "h"
	}
	return text
}
