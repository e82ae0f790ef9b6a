package main

import (
	"context"
	"errors"
	"fmt"
	"io"
	"os"

	"github.com/spf13/cobra"

	"github.com/troupe-run/troupe/internal/keeper"
)

func main() {
	if len(os.Args) > 1 && os.Args[1] == keeperCommand { // before anything else of this program: see keeper.Main
		os.Exit(keeper.Main(os.Args[2:]))
	}
	os.Exit(run(os.Args[1:], os.Stdout, os.Stderr))
}

// rootCommand returns the command troupe with all that are below it.
func rootCommand(stdout, stderr io.Writer) *cobra.Command {
	root := &cobra.Command{
		Use:   "troupe",
		Short: "A runtime for MCP servers whose sessions survive a crash",
		Long: "troupe serves the Model Context Protocol: the servers that you have, for many users, with sessions and event\n" +
			"streams that are kept in a data directory, so that clients go on with them after the process was killed and\n" +
			"started again.",
		Example: `  troupe serve -- npx -y @modelcontextprotocol/server-everything   serve that one on http://127.0.0.1:8080/mcp
  troupe serve --servers .mcp.json   serve those that a client has in its file
  troupe serve                  serve the demo
  troupe stdio                  serve it to the client that starts this process
  troupe health --ready         ask whether it can serve
  troupe config show            see with which settings it would serve, and where they come from
  troupe tools URL              list the tools of a server, this one's or any other
  troupe call URL TOOL JSON     call one
  troupe tasks ls               see what a server that runs is working on
  troupe backends ls            see how the servers are that it hosts
  troupe keys create --name CI  make an API key
  troupe nodes                  see which processes share its store
  troupe bench URL              measure a server
  troupe serve --help           see what can be set
  source <(troupe completion bash)   complete commands and flags in this shell`,
		SilenceErrors: true,
		SilenceUsage:  true,
	}
	root.AddCommand(serveCommand(stderr), stdioCommand(os.Stdin, stdout, stderr), configCommand(stdout, stderr), healthCommand(stdout), callCommand(stdout, stderr), toolsCommand(stdout, stderr), nodesCommand(stdout), backendsCommand(stdout), sessionsCommand(stdout), keysCommand(stdout, stderr), revokeCommand(stdout), tasksCommand(stdout), callsCommand(stdout), drainCommand(stdout), benchCommand(stdout, stderr), versionCommand())
	for _, c := range root.Commands() {
		if c.HasSubCommands() && !c.Runnable() { // by itself it would show its help for any word, and end well
			c.Args, c.RunE = cobra.NoArgs, func(c *cobra.Command, _ []string) error { return c.Help() }
		}
	}
	root.SetOut(stdout)
	root.SetErr(stderr)
	return root
}

// run runs the command line and returns the exit code.
func run(args []string, stdout, stderr io.Writer) int {
	root := rootCommand(stdout, stderr)
	root.SetArgs(args)
	cmd, err := root.ExecuteContextC(context.WithValue(context.Background(), commandLine{}, args))
	if err == nil {
		return 0
	}
	fmt.Fprintf(stderr, "troupe: %v\n", err)
	if errors.Is(err, errToolFailed) {
		return 3
	}
	if _, ok := errors.AsType[*failure](err); ok {
		return 1
	}
	if !saysPlace(err) {
		fmt.Fprintf(stderr, "See %s --help.\n", cmd.CommandPath())
	}
	return 2
}
