package main

import (
	"context"
	"errors"
	"fmt"
	"io"
	"strconv"
	"syscall"
	"text/tabwriter"
	"time"

	"github.com/spf13/cobra"

	"github.com/troupe-run/troupe/internal/admin"
	"github.com/troupe-run/troupe/operator"
)

// nodesCommand looks at the processes that share a store.
func nodesCommand(stdout io.Writer) *cobra.Command {
	var data string
	var asJSON bool
	cmd := &cobra.Command{
		Use:   "nodes",
		Short: "List the processes that share a store",
		Long: "Asks the server that uses a data directory for the processes that share its store. HEARD is how long ago that\n" +
			"server heard one, LEFT what is left of its lease. A lease that is late was not renewed in time: others take\n" +
			"its streams over once it is gone. A process whose lease is gone is listed for ten minutes.",
		Example: `  troupe nodes
  troupe nodes --json | jq '.[] | select(.lease != "held") | .name'`,
		Args: cobra.NoArgs,
		RunE: func(cmd *cobra.Command, _ []string) error {
			return askServer(data, func(c *admin.Client) error {
				all, err := c.Nodes(cmd.Context())
				switch {
				case err != nil:
					return err
				case asJSON:
					return printJSON(stdout, all)
				}
				return printNodes(stdout, all)
			})
		},
	}
	dataFlag(cmd, &data)
	cmd.Flags().BoolVar(&asJSON, "json", false, "print JSON")
	cmd.Flags().SortFlags = false
	return cmd
}

func printNodes(w io.Writer, all []operator.Node) error {
	t := tabwriter.NewWriter(w, 0, 0, 2, ' ', 0)
	fmt.Fprintln(t, "NODE\tBOOT\tHEARD\tLEASE\tLEFT\tSTATE\tCALLS\tSTREAMS\tSESSIONS\tRELEASE\tSERVERS")
	for _, n := range all {
		heard, left, state := "-", "-", "serves"
		switch {
		case n.Self:
			heard = "this one"
		case n.HeardMS != nil:
			heard = tenthsOfSecond(*n.HeardMS) + " ago"
		}
		if n.LeftMS != nil {
			left = tenthsOfSecond(*n.LeftMS)
		}
		calls, streams, sessions, release := "-", "-", "-", "-"
		if l := n.Load; l != nil {
			calls, streams, sessions, release = strconv.Itoa(l.Calls), strconv.Itoa(l.Streams), strconv.Itoa(l.Sessions), orDash(plainLine(l.Release, 40))
			if l.Draining {
				state = "drains"
			}
		}
		if n.Lease == operator.LeaseGone || n.Load == nil {
			state = "-"
		}
		servers := ""
		for i, id := range n.Servers {
			if i > 0 {
				servers += ","
			}
			servers += id
		}
		fmt.Fprintf(t, "%s\t%s\t%s\t%s\t%s\t%s\t%s\t%s\t%s\t%s\t%s\n", plainLine(n.Name, 40), plainLine(n.Boot, 20), heard, n.Lease, left, state, calls, streams, sessions, release, orDash(plainLine(servers, 60)))
	}
	return t.Flush()
}

// tenthsOfSecond writes milliseconds in seconds.
func tenthsOfSecond(ms int64) string {
	return (time.Duration(ms) * time.Millisecond).Round(100 * time.Millisecond).String()
}

// drainCommand ends a server in order.
func drainCommand(stdout io.Writer) *cobra.Command {
	var data string
	var wait, asJSON bool
	cmd := &cobra.Command{
		Use:   "drain",
		Short: "End a server that runs in order, as SIGTERM does",
		Long: "Has the server that uses a data directory drain, and then end: its /readyz fails, streams are handed over to\n" +
			"other processes or to the next one, and calls that only it can end are waited for. The command returns once\n" +
			"that has begun; with --wait it shows what is left until the process has ended.",
		Example: `  troupe drain --data /var/lib/troupe
  troupe drain --data /var/lib/troupe --wait && systemctl start troupe`,
		Args: cobra.NoArgs,
		RunE: func(cmd *cobra.Command, _ []string) error {
			return askServer(data, func(c *admin.Client) error {
				ctx := context.WithoutCancel(cmd.Context())
				d, err := c.Drain(ctx)
				if wait && errors.Is(err, operator.ErrDraining) {
					d, err = c.Draining(ctx)
				}
				if errors.Is(err, operator.ErrDraining) {
					return fmt.Errorf("%w: troupe drain --wait shows how far it is", err)
				}
				if err != nil {
					return err
				}
				print := printDraining
				if asJSON {
					print = func(w io.Writer, d operator.Draining) error { return printJSON(w, d) }
				}
				if err := print(stdout, d); err != nil || !wait {
					return err
				}
				return waitDrained(cmd.Context(), stdout, c, d, print)
			})
		},
	}
	dataFlag(cmd, &data)
	cmd.Flags().BoolVar(&wait, "wait", false, "wait until the process has ended")
	cmd.Flags().BoolVar(&asJSON, "json", false, "print JSON, an object for each step")
	cmd.Flags().SortFlags = false
	return cmd
}

// drainLook is how often waitDrained asks.
const drainLook = 200 * time.Millisecond

// waitDrained prints what a process still has to do, each time that this changes, until the process has ended.
func waitDrained(ctx context.Context, w io.Writer, c *admin.Client, last operator.Draining, print func(io.Writer, operator.Draining) error) error {
	for {
		select {
		case <-ctx.Done():
			return ctx.Err()
		case <-time.After(drainLook):
		}
		d, err := c.Draining(ctx)
		switch {
		case isGone(err):
			return nil // the socket is the last to go
		case err != nil:
			return err
		case d.Boot != last.Boot:
			return nil // another process is there already
		case d == last:
			continue
		}
		if err := print(w, d); err != nil {
			return err
		}
		last = d
	}
}

// isGone reports whether a server that answered before has ended.
func isGone(err error) bool {
	return errors.Is(err, admin.ErrNoServer) || errors.Is(err, io.EOF) || errors.Is(err, io.ErrUnexpectedEOF) || errors.Is(err, syscall.ECONNRESET) || errors.Is(err, syscall.EPIPE)
}

func printDraining(w io.Writer, d operator.Draining) error {
	_, err := fmt.Fprintf(w, "%s drains; calls in flight: %d, streams written here: %d, streams with a connection: %d\n", plainLine(d.Node, 40), d.Calls, d.Streams, d.Connections)
	return err
}
