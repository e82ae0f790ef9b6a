package main

import (
	"cmp"
	"context"
	"fmt"
	"io"
	"slices"
	"strings"
	"text/tabwriter"
	"time"

	"github.com/spf13/cobra"

	"github.com/troupe-run/troupe/internal/admin"
	"github.com/troupe-run/troupe/operator"
)

// callsCommand looks at the calls in flight of a server that runs.
func callsCommand(stdout io.Writer) *cobra.Command {
	var data string
	cmd := &cobra.Command{
		Use:   "calls",
		Short: "Look at the calls in flight of a server that runs, and end them",
		Long: "Asks the server that uses a data directory for the calls that it runs, of clients with and without a session. Of\n" +
			"processes that share a store each has its own.",
		Example: `  troupe calls ls                     the oldest first
  troupe calls ls --principal alice   whose calls run
  troupe calls cancel 3fk2pq-1k-4     ends one, though its handler may not heed it`,
	}
	dataFlag(cmd, &data)
	cmd.AddCommand(callsList(stdout, &data), callsCancel(stdout, &data))
	return cmd
}

func callsList(stdout io.Writer, data *string) *cobra.Command {
	var q operator.Query
	var asJSON bool
	cmd := &cobra.Command{
		Use:   "ls",
		Short: "List calls in flight",
		Long: "Lists the calls in flight, the oldest first. A call is running until something of its response is sent, streaming\n" +
			"from then on, and waiting while its client, which was asked, is to send the request again (2026-07-28). Calls\n" +
			"that have become tasks are in troupe tasks ls.",
		Example: `  troupe calls ls
  troupe calls ls --state running --json | jq '.calls[] | select(.target == "report") | .id'`,
		Args: cobra.NoArgs,
		RunE: func(cmd *cobra.Command, _ []string) error {
			if q.State != "" && !slices.Contains(operator.CallStates, q.State) {
				return fmt.Errorf("state is %q: want one of %s", q.State, strings.Join(operator.CallStates, ", "))
			}
			if err := checkLimit(q); err != nil {
				return err
			}
			return askServer(*data, func(c *admin.Client) error {
				page, err := c.Calls(cmd.Context(), q)
				switch {
				case err != nil:
					return err
				case asJSON:
					return printJSON(stdout, page)
				}
				return printCalls(stdout, page, time.Now())
			})
		},
	}
	f := cmd.Flags()
	f.StringVar(&q.State, "state", "", "which: "+strings.Join(operator.CallStates, ", ")+" (all)")
	queryFlags(f, &q)
	f.BoolVar(&asJSON, "json", false, "print JSON")
	f.SortFlags = false
	return cmd
}

func callsCancel(stdout io.Writer, data *string) *cobra.Command {
	return &cobra.Command{
		Use:   "cancel ID",
		Short: "End a call in flight",
		Long: "Ends a call: its client gets one answer at once, the error -32010, that an operator has ended it and that it is\n" +
			"unknown whether it took effect. The context of its handler ends; a handler that does not heed that goes on, and\n" +
			"counts among the calls of its client, until it returns. What it has done stays done.",
		Example: `  troupe calls cancel 3fk2pq-1k-4`,
		Args:    wantOne("call", "troupe calls ls"),
		RunE: func(cmd *cobra.Command, args []string) error {
			return askServer(*data, func(c *admin.Client) error {
				call, err := c.CancelCall(context.WithoutCancel(cmd.Context()), args[0])
				if err == nil {
					_, err = fmt.Fprintf(stdout, "%s has ended: %s\n", call.ID, plainLine(strings.TrimSpace(call.Method+" "+call.Target), 100))
				}
				return err
			})
		},
	}
}

func printCalls(w io.Writer, page operator.CallPage, now time.Time) error {
	if len(page.Calls) == 0 {
		_, err := fmt.Fprintln(w, "there are no such calls in flight")
		return err
	}
	t := tabwriter.NewWriter(w, 0, 0, 2, ' ', 0)
	fmt.Fprintln(t, "ID\tSTATE\tAGE\tMETHOD\tTARGET\tSERVER\tPRINCIPAL\tADDRESS\tSESSION\tPROTOCOL\tCLIENT\tTRACE")
	for _, c := range page.Calls {
		fmt.Fprintf(t, "%s\t%s\t%s\t%s\t%s\t%s\t%s\t%s\t%s\t%s\t%s\t%s\n", c.ID, c.State, roughTime(now.Sub(c.Began)), plainLine(c.Method, 40), orDash(plainLine(c.Target, 40)), plainLine(c.Server, 30),
			plainLine(cmp.Or(c.Principal, c.Tenant), 40), orDash(c.Address), orDash(c.Session), orDash(c.Revision), orDash(plainLine(c.Client, 40)), orDash(c.Trace))
	}
	if page.More > 0 {
		fmt.Fprintf(t, "and %d more: --principal, --server and --state narrow the list\n", page.More)
	}
	return t.Flush()
}
