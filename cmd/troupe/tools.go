package main

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"maps"
	"slices"
	"strings"
	"text/tabwriter"

	"github.com/spf13/cobra"

	"github.com/troupe-run/troupe/internal/client"
)

func toolsCommand(stdout, stderr io.Writer) *cobra.Command {
	var r remote
	cmd := &cobra.Command{
		Use:   "tools URL [flags]",
		Short: "List the tools of any MCP server",
		Long: `Lists the tools that a server shows to this client, with their arguments; those in brackets may be left out.

` + remoteHelp + `

Exit codes: 0 with the list, 1 if the server cannot be reached or refuses, 2 for a wrong command line.`,
		Example: `  troupe tools http://127.0.0.1:8080/mcp
  troupe tools http://127.0.0.1:8080/mcp --json | jq '.[].inputSchema'
  ` + tokenVariable + `=... troupe tools https://mcp.example.com/mcp --header 'X-Team: maps'`,
		Args: func(_ *cobra.Command, args []string) error {
			if len(args) != 1 {
				return errors.New("which server? give its URL, such as http://127.0.0.1:8080/mcp")
			}
			return nil
		},
		RunE: func(cmd *cobra.Command, args []string) error {
			o, err := r.options(args[0])
			if err != nil {
				return err
			}
			var all []client.Tool
			err = r.speakToServer(cmd.Context(), o, stderr, "the list of tools", func(ctx context.Context, c *client.Client) (err error) {
				all, err = c.Tools(ctx)
				return err
			})
			if err != nil {
				return err
			}
			return printTools(stdout, all, r.asJSON)
		},
	}
	r.register(cmd)
	groupedHelp(cmd, remoteFlags)
	return cmd
}

// printTools prints a line for each tool, or all that the server says of them as JSON.
func printTools(w io.Writer, all []client.Tool, asJSON bool) error {
	if asJSON {
		texts := make([]json.RawMessage, len(all))
		for i, t := range all {
			texts[i] = t.Raw
		}
		list, err := json.Marshal(texts)
		if err != nil {
			return &failure{oneLine(err), err}
		}
		return printIndented(w, list)
	}
	if len(all) == 0 {
		_, err := fmt.Fprintln(w, "there are no tools")
		return err
	}
	t := tabwriter.NewWriter(w, 0, 0, 2, ' ', 0)
	fmt.Fprint(t, "TOOL\tARGUMENTS\tDESCRIPTION\n")
	for _, tool := range all {
		about, _, _ := strings.Cut(tool.Description, "\n")
		fmt.Fprintf(t, "%s\t%s\t%s\n", plainLine(tool.Name, 60), orDash(plainLine(argumentNames(tool.InputSchema), 60)), plainLine(about, 120))
	}
	return t.Flush()
}

// argumentNames are the arguments of a tool: those that it requires, and in brackets the others.
func argumentNames(schema json.RawMessage) string {
	var s struct {
		Properties map[string]json.RawMessage
		Required   []string
	}
	if json.Unmarshal(schema, &s) != nil {
		return ""
	}
	names := s.Required
	for _, name := range slices.Sorted(maps.Keys(s.Properties)) {
		if !slices.Contains(s.Required, name) {
			names = append(names, "["+name+"]")
		}
	}
	return strings.Join(names, " ")
}
