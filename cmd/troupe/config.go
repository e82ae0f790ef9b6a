package main

import (
	"errors"
	"fmt"
	"os"

	"github.com/spf13/cobra"
	"github.com/spf13/pflag"

	"github.com/troupe-run/troupe/internal/configfile"
)

// readConfig sets the flags of cmd that the command line leaves out to what the
// YAML file says. The file is one mapping whose keys are names of flags, and auth, which is section; where that is nil there is none.
// An unknown or repeated key and a value of the wrong kind are errors that name the key and
// its line.
func readConfig(cmd *cobra.Command, file string, section *configfile.Auth) error {
	data, err := os.ReadFile(file)
	if err != nil {
		return fmt.Errorf("config: %w", err)
	}
	readers := make(map[string]configfile.Reader)
	cmd.Flags().VisitAll(func(f *pflag.Flag) {
		readers[f.Name] = configfile.ReadSetting(f.Value.Type(), func(text string) error {
			if f.Changed {
				return nil
			}
			return f.Value.Set(text)
		})
	})
	delete(readers, "config")
	delete(readers, "help")
	if section != nil {
		readers["auth"] = configfile.ReadAuth(section, os.ReadFile)
	}
	err = configfile.Read(data, readers)
	if at, ok := errors.AsType[*configfile.Error](err); ok {
		return fmt.Errorf("config %s:%d: %w", file, at.Line, err)
	}
	if err != nil {
		return fmt.Errorf("config %s: %w", file, err)
	}
	return nil
}
