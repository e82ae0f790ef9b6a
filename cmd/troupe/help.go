package main

import (
	"fmt"
	"strings"

	"github.com/spf13/cobra"
)

// flagGroup is a heading of the help and the flags below it.
type flagGroup struct {
	title string
	names []string
}

// groupedHelp makes the help of cmd show its flags in groups.
func groupedHelp(cmd *cobra.Command, groups []flagGroup) {
	cmd.SetHelpFunc(func(cmd *cobra.Command, _ []string) {
		fmt.Fprint(cmd.OutOrStdout(), helpText(cmd, groups))
	})
}

func helpText(cmd *cobra.Command, groups []flagGroup) string {
	var b strings.Builder
	fmt.Fprintf(&b, "%s\n\nUsage:\n  %s\n\nExamples:\n%s\n", cmd.Long, cmd.UseLine(), cmd.Example)
	for _, g := range groups {
		fmt.Fprintf(&b, "\n%s:\n", g.title)
		width := 24
		for _, name := range g.names {
			left, _ := flagLine(cmd, name)
			width = max(width, len(left))
		}
		for _, name := range g.names {
			left, usage := flagLine(cmd, name)
			fmt.Fprintf(&b, "  %-*s %s\n", width, left, usage)
		}
	}
	b.WriteString("\nValues in parentheses are the defaults. Times are written as 250ms, 90s, 10m or 72h, sizes as 500MB or 8GiB.\n")
	return b.String()
}

// flagLine is a flag with the name of its value, and what it does.
func flagLine(cmd *cobra.Command, name string) (left, usage string) {
	f := cmd.Flags().Lookup(name)
	before, rest, named := strings.Cut(f.Usage, "`")
	arg, after, _ := strings.Cut(rest, "`")
	left, usage = "--"+name, f.Usage
	if named {
		left, usage = left+" "+strings.ToUpper(arg), before+arg+after
	}
	if v := f.DefValue; v != "" && v != "false" && v != "[]" && !strings.HasSuffix(usage, ")") {
		usage += " (" + shortTime(v) + ")"
	}
	return left, usage
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
