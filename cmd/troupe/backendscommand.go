package main

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"io"
	"strconv"
	"strings"
	"text/tabwriter"
	"time"

	"github.com/spf13/cobra"

	"github.com/troupe-run/troupe/internal/admin"
	"github.com/troupe-run/troupe/internal/configfile"
	table "github.com/troupe-run/troupe/internal/limits"
)

// backendsCommand looks at the backends of a server that runs.
func backendsCommand(stdout io.Writer) *cobra.Command {
	var data string
	cmd := &cobra.Command{
		Use:   "backends",
		Short: "Look at the servers that a server that runs hosts, and restart them",
		Long: "Asks the server that uses a data directory for its backends: the servers of others that it hosts, from a command\n" +
			"behind --, --servers or the section backends. It is asked through the socket " + admin.SocketName + " there, which only the\n" +
			"user who runs it may use. A server with --memory has no socket, and neither has troupe stdio. Of processes that\n" +
			"share a store each has its own instances. Secrets are masked in all that is shown.",
		Example: `  troupe backends ls                 which ones run, and what is wrong with the others
  troupe backends show memory        its options, its instances and how the last ones have ended
  troupe backends logs memory -f     what it writes to its standard error, as it comes
  troupe backends restart memory     new instances, once it was upgraded or mended`,
	}
	dataFlag(cmd, &data)
	cmd.AddCommand(backendsList(stdout, &data), backendsShow(stdout, &data), backendsLogs(stdout, &data), backendsRestart(stdout, &data))
	return cmd
}

func backendsList(stdout io.Writer, data *string) *cobra.Command {
	var asJSON bool
	cmd := &cobra.Command{
		Use:   "ls",
		Short: "List backends",
		Long: "Lists backends in the order of the configuration. STATE is running if an instance can serve, starting while the\n" +
			"first one starts, stopped if none runs as nobody needs one, and down if the last one has failed: then it says when\n" +
			"it is tried again, and if calls are refused until then. IDLE, BUSY and MAX are instances: those that rest, those that\n" +
			"serve calls, and how many there may be. WAITING are calls without an instance. A backend is wrong if it\n" +
			"is left out as its configuration cannot be used: the last column says why, also of one that goes on as it was.",
		Example: `  troupe backends ls
  troupe backends ls --json | jq -r '.[] | select(.state == "down") | .name + ": " + .reason'`,
		Args: cobra.NoArgs,
		RunE: func(cmd *cobra.Command, _ []string) error {
			return askServer(*data, func(c *admin.Client) error {
				all, err := c.HostedBackends().Backends(cmd.Context())
				switch {
				case err != nil:
					return err
				case asJSON:
					return printJSON(stdout, all)
				}
				return printBackends(stdout, all, time.Now())
			})
		},
	}
	cmd.Flags().BoolVar(&asJSON, "json", false, "print JSON")
	return cmd
}

func printBackends(w io.Writer, all []admin.Backend, now time.Time) error {
	if len(all) == 0 {
		_, err := fmt.Fprintln(w, "this server hosts no backends: start one that does with troupe serve -- COMMAND, or troupe serve --servers FILE")
		return err
	}
	t := tabwriter.NewWriter(w, 0, 0, 2, ' ', 0)
	fmt.Fprintln(t, "NAME\tSTATE\tIDLE/BUSY/MAX\tWAITING\tMEMORY\tERA\tREVISIONS\tTARGET\tLAST FAILURE")
	for i := range all {
		b := &all[i]
		failure := "-"
		switch f := b.LastFailure; {
		case b.Wrong != "":
			failure = "what is configured now cannot be used: " + plainLine(b.Wrong, 300)
		case f != nil:
			failure = roughTime(now.Sub(f.Time)) + " ago: " + plainLine(f.Text, 80)
		}
		fmt.Fprintf(t, "%s\t%s\t%s\t%d\t%s\t%s\t%s\t%s\t%s\n", plainLine(b.Name, 60), backendState(b, now), instanceCounts(b), b.Waiting, sizeOrDash(b.Memory),
			b.Era, orDash(strings.Join(b.Revisions, ",")), orDash(plainLine(b.Target, 60)), failure)
	}
	return t.Flush()
}

// backendState is the state of a backend in a few words.
func backendState(b *admin.Backend, now time.Time) string {
	if b.State != admin.BackendDown {
		return b.State
	}
	text := b.State + ", tried again with the next call"
	if b.Retry != nil {
		text = b.State + ", tried again in " + roughTime(b.Retry.Sub(now)+time.Second-1)
	}
	if b.Refused {
		text += ", calls are refused"
	}
	return text
}

// instanceCounts are those that are idle, that serve, and that there may be.
func instanceCounts(b *admin.Backend) string {
	if b.State == admin.BackendWrong {
		return "-"
	}
	n := b.Instances
	most := "any"
	if n.Max > 0 {
		most = strconv.Itoa(n.Max)
	}
	return fmt.Sprintf("%d/%d/%s", n.Idle, n.Serving, most)
}

func sizeOrDash(bytes int64) string {
	if bytes <= 0 {
		return "-"
	}
	return fmt.Sprintf("%.1fMiB", float64(bytes)/(1<<20))
}

func backendsShow(stdout io.Writer, data *string) *cobra.Command {
	var asJSON bool
	cmd := &cobra.Command{
		Use:   "show NAME",
		Short: "Show a backend: its options, its instances, how the last ones have ended",
		Long: "Shows a backend: the options that are in force, as the section backends has them, how much it lists, its instances\n" +
			"and whose they are, and how the last ones have ended, with the last lines of their standard error. The id of a\n" +
			"session is its client's secret: what is shown in its place is the tag that troupe sessions has.",
		Example: `  troupe backends show memory
  troupe backends show memory --json | jq '.running[] | select(.holder == "session") | .pid'`,
		Args: wantOne("backend", "troupe backends ls"),
		RunE: func(cmd *cobra.Command, args []string) error {
			return askServer(*data, func(c *admin.Client) error {
				d, err := c.HostedBackends().Backend(cmd.Context(), args[0])
				switch {
				case err != nil:
					return err
				case asJSON:
					return printJSON(stdout, d)
				}
				return printBackend(stdout, &d, time.Now())
			})
		},
	}
	cmd.Flags().BoolVar(&asJSON, "json", false, "print JSON")
	return cmd
}

func printBackend(w io.Writer, d *admin.BackendDetail, now time.Time) error {
	t := tabwriter.NewWriter(w, 0, 0, 2, ' ', 0)
	line := func(name, format string, a ...any) { fmt.Fprintf(t, name+"\t"+format+"\n", a...) }
	line("name", "%s", plainLine(d.Name, 1000))
	line("target", "%s", orDash(plainLine(d.Target, 1000)))
	line("era", "%s", d.Era)
	line("revisions", "%s", orDash(strings.Join(d.Revisions, ", ")))
	line("state", "%s", backendState(&d.Backend, now))
	if d.Wrong != "" {
		line("wrong", "%s", plainLine(d.Wrong, 1000))
	}
	if d.State == admin.BackendWrong {
		return t.Flush()
	}
	if d.Reason != "" {
		line("reason", "%s", plainLine(d.Reason, 1000))
	}
	line("waiting", "%d", d.Waiting)
	line("memory", "%s", sizeOrDash(d.Memory))
	lists := "nothing is known until it has started once"
	if l := d.Lists; l != nil {
		lists = fmt.Sprintf("%d tools, %d prompts, %d resources, %d resource templates", l.Tools, l.Prompts, l.Resources, l.Templates)
	}
	line("lists", "%s", lists)
	failure := "-"
	if f := d.LastFailure; f != nil {
		failure = f.Time.Format(time.RFC3339) + ": " + plainLine(f.Text, 1000)
	}
	line("last failure", "%s", failure)
	line("instances", "%d idle, %d serve, %d start, %d stop", d.Instances.Idle, d.Instances.Serving, d.Instances.Starting, d.Instances.Stopping)
	if len(d.Running) > 0 {
		fmt.Fprintf(t, "\nPID\tSTATE\tHOLDER\tSESSION\tTENANT\tSINCE\tCALLS\tMEMORY\n")
		for _, in := range d.Running {
			state := in.State
			if in.Ends && state == "serving" {
				state = "serving, ends then"
			}
			fmt.Fprintf(t, "%s\t%s\t%s\t%s\t%s\t%s ago\t%d\t%s\n", pidOrDash(in.PID), state, in.Holder, orDash(in.Session), orDash(in.Tenant), roughTime(now.Sub(in.Since)), in.Calls, sizeOrDash(in.Memory))
		}
	}
	if len(d.Ended) > 0 {
		fmt.Fprintf(t, "\nENDED\tPID\tREASON\tLIVED\tSTATUS\n")
		for _, e := range d.Ended {
			fmt.Fprintf(t, "%s ago\t%s\t%s\t%s\t%s\n", roughTime(now.Sub(e.Time)), pidOrDash(e.PID), e.Reason, roughTime(time.Duration(e.LivedMS)*time.Millisecond), orDash(plainLine(e.Status, 1000)))
		}
	}
	if err := t.Flush(); err != nil {
		return err
	}
	_, err := fmt.Fprintf(w, "\noptions\n  %s\n", strings.Join(d.Options, "\n  "))
	return err
}

func pidOrDash(pid int) string {
	if pid == 0 {
		return "-"
	}
	return strconv.Itoa(pid)
}

func backendsLogs(stdout io.Writer, data *string) *cobra.Command {
	var follow bool
	cmd := &cobra.Command{
		Use:   "logs NAME",
		Short: "Print what a backend has written to its standard error, and what became of its instances",
		Long: "Prints the last lines of a backend, the oldest first: what its processes have written to their standard error,\n" +
			"behind a |, and when they have started and ended, and why. The server keeps " + configfile.Size(int64(table.BackendLog.Value())) + " for each backend in its memory,\n" +
			"since its start; its own log has the same, as much of it as stderr-rate allows. With -f it goes on as lines come,\n" +
			"until the server ends.",
		Example: `  troupe backends logs memory
  troupe backends logs memory -f | grep -i error`,
		Args: wantOne("backend", "troupe backends ls"),
		RunE: func(cmd *cobra.Command, args []string) error {
			return askServer(*data, func(c *admin.Client) error {
				return printLines(cmd.Context(), stdout, c.HostedBackends(), args[0], follow)
			})
		},
	}
	cmd.Flags().BoolVarP(&follow, "follow", "f", false, "go on as lines come")
	return cmd
}

// followLook is how often printLines asks for more.
const followLook = 200 * time.Millisecond

// errFollowed is why nothing more comes of a backend that is followed.
var errFollowed = errors.New("the server has ended: once the next one runs, this command follows it")

// printLines prints the lines of a backend, and those that come if it is to follow them.
func printLines(ctx context.Context, w io.Writer, b admin.Backends, name string, follow bool) error {
	for from := ""; ; {
		page, err := b.BackendLog(ctx, name, from)
		switch {
		case err != nil && from != "" && isGone(err):
			return errFollowed
		case err != nil:
			return err
		}
		if page.Missed > 0 {
			fmt.Fprintf(w, "%d lines were dropped before they could be read\n", page.Missed)
		}
		for _, l := range page.Lines {
			mark := ""
			if l.Stderr {
				mark = "| "
			}
			if _, err := fmt.Fprintf(w, "%s %s %s%s\n", l.Time.Format(time.RFC3339), pidOrDash(l.PID), mark, plainLine(l.Text, len(l.Text))); err != nil {
				return err
			}
		}
		if !follow {
			return nil
		}
		from = page.Next
		select {
		case <-ctx.Done():
			return ctx.Err()
		case <-time.After(followLook):
		}
	}
}

func backendsRestart(stdout io.Writer, data *string) *cobra.Command {
	var atOnce bool
	cmd := &cobra.Command{
		Use:   "restart NAME",
		Short: "Have new instances take the place of those of a backend",
		Long: "Has new instances serve from now on, which start when they are needed. The old ones end when their calls have, or\n" +
			"at once with --now: then a call that they were working at runs once more if it is safe, and else ends with -32010.\n" +
			"What they kept for sessions is lost, and each session is told so once, or ends (on-loss). A backend that has failed\n" +
			"is tried again with the next call, without a pause. Its configuration stays as it is: SIGHUP reads the files again.",
		Example: `  npm install -g @modelcontextprotocol/server-memory && troupe backends restart memory
  troupe backends restart memory --now   does not wait for its calls`,
		Args: wantOne("backend", "troupe backends ls"),
		RunE: func(cmd *cobra.Command, args []string) error {
			return askServer(*data, func(c *admin.Client) error {
				did, err := c.HostedBackends().RestartBackend(context.WithoutCancel(cmd.Context()), args[0], atOnce)
				if err == nil {
					_, err = fmt.Fprintln(stdout, restartText(args[0], did))
				}
				return err
			})
		},
	}
	cmd.Flags().BoolVar(&atOnce, "now", false, "do not wait for the calls that the old instances serve")
	return cmd
}

// restartText says what a restart has done.
func restartText(name string, did admin.BackendRestart) string {
	var parts []string
	if did.Ended > 0 {
		parts = append(parts, quantity(did.Ended, "instance ends", "instances end"))
	}
	if did.Ending > 0 {
		parts = append(parts, quantity(did.Ending, "instance ends", "instances end")+" when "+quantity(did.Calls, "call has", "calls have"))
	} else if did.Calls > 0 {
		parts = append(parts, quantity(did.Calls, "call was", "calls were")+" cut short")
	}
	if did.Ended+did.Ending == 0 {
		parts = append(parts, "no instance was running")
	}
	if did.Failures > 0 {
		was := "it has failed " + quantity(did.Failures, "time", "times")
		if did.Refused {
			was += ", and calls were refused"
		}
		parts = append(parts, was+" ("+plainLine(cmp.Or(did.Reason, "nobody knows why"), 200)+"): it is tried again without a pause")
	}
	return plainLine(name, 60) + ": " + strings.Join(parts, "; ") + "; the next call starts a new one"
}

// quantity is a number with its noun and verb.
func quantity(n int, one, many string) string {
	if n == 1 {
		return "1 " + one
	}
	return strconv.Itoa(n) + " " + many
}
