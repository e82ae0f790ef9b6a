package main

import (
	"fmt"
	"runtime"
	"runtime/debug"
	"strings"

	"github.com/spf13/cobra"

	"github.com/troupe-run/troupe"
)

func versionCommand() *cobra.Command {
	return &cobra.Command{
		Use:   "version",
		Short: "Print the version, the commit, the library that reads and writes JSON, and the protocol revisions it speaks",
		Args:  cobra.NoArgs,
		RunE: func(cmd *cobra.Command, _ []string) error {
			_, err := fmt.Fprint(cmd.OutOrStdout(), versionText())
			return err
		},
	}
}

// version is the program's, as far as it was built with one: the tag of its sources, or what Go makes of their commit, and the version of the module where
// `go install` has built it.
func version() string {
	if info, ok := debug.ReadBuildInfo(); ok && info.Main.Version != "" {
		return info.Main.Version
	}
	return "unknown"
}

// commitLine names the commit of the sources. It is empty where Go was told of none: by `go install` of a version, or with -buildvcs=false.
func commitLine(settings []debug.BuildSetting) string {
	var commit, at, changed string
	for _, s := range settings {
		switch s.Key {
		case "vcs.revision":
			commit = s.Value
		case "vcs.time":
			at = " of " + s.Value
		case "vcs.modified":
			if s.Value == "true" {
				changed = ", with changes that are in no commit"
			}
		}
	}
	if commit == "" {
		return ""
	}
	return "commit " + commit + at + changed + "\n"
}

func versionText() string {
	commit := ""
	if info, ok := debug.ReadBuildInfo(); ok {
		commit = commitLine(info.Settings)
	}
	return fmt.Sprintf("troupe %s\n%s%s %s/%s\ncodec: %s\nMCP %s\n", version(), commit, runtime.Version(), runtime.GOOS, runtime.GOARCH, troupe.Codec(), strings.Join(troupe.Revisions(), ", "))
}
