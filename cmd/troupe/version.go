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
		Short: "Print the version, the library that reads and writes JSON, and the protocol revisions it speaks",
		Args:  cobra.NoArgs,
		RunE: func(cmd *cobra.Command, _ []string) error {
			_, err := fmt.Fprint(cmd.OutOrStdout(), versionText())
			return err
		},
	}
}

// version is the program's, as far as it was built with one.
func version() string {
	if info, ok := debug.ReadBuildInfo(); ok && info.Main.Version != "" {
		return info.Main.Version
	}
	return "unknown"
}

func versionText() string {
	return fmt.Sprintf("troupe %s\n%s %s/%s\ncodec: %s\nMCP %s\n", version(), runtime.Version(), runtime.GOOS, runtime.GOARCH, troupe.Codec(), strings.Join(troupe.Revisions(), ", "))
}
