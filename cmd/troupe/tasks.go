package main

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"path/filepath"
	"slices"
	"strings"
	"text/tabwriter"
	"time"
	"unicode"

	"github.com/spf13/cobra"

	"github.com/troupe-run/troupe/internal/admin"
	"github.com/troupe-run/troupe/operator"
)

// tasksCommand looks at the tasks of a server that runs.
func tasksCommand(stdout io.Writer) *cobra.Command {
	var data string
	cmd := &cobra.Command{
		Use:   "tasks",
		Short: "Look at the tasks of a server that runs, and cancel them",
		Long: "Asks the server that uses a data directory, through the socket " + admin.SocketName + " there, which only the user\n" +
			"who runs the server may use. A server with --memory has no socket, and neither has troupe stdio. With\n" +
			"--nats each process has one if it is given --data, and any of them shows the tasks of all.",
		Example: `  troupe tasks ls                      what has not ended, by its last change
  troupe tasks ls --state failed       what failed
  troupe tasks show ID                 its runs, its steps and how long they took, what it asks
  troupe tasks cancel ID               as its client may`,
	}
	dataFlag(cmd, &data)
	cmd.AddCommand(tasksList(stdout, &data), tasksShow(stdout, &data), tasksCancel(stdout, &data))
	return cmd
}

// askServer runs f with a client of the server that uses the data directory, and says what to do where that fails.
func askServer(data string, f func(c *admin.Client) error) error {
	data, err := dataDirectory(data)
	if err != nil {
		return err
	}
	c := admin.NewClient(data)
	defer c.Close()
	err = f(c)
	switch {
	case err == nil:
		return nil
	case errors.Is(err, admin.ErrNoServer):
		return &failure{fmt.Sprintf("no server answers on %s: start one with troupe serve --data %s, or name the data directory of one that runs with --data DIR"+
			" (a server with --memory, and troupe stdio, cannot be asked)", filepath.Join(data, admin.SocketName), data), err}
	case errors.Is(err, admin.ErrLongPath):
		return &failure{fmt.Sprintf("the server with the data directory %s cannot be reached: %s", data, oneLine(err)), err}
	case isPathError(err):
		return &failure{fmt.Sprintf("the data directory %s cannot be used (%s): choose another with --data DIR", data, oneLine(err)), err}
	case errors.Is(err, operator.ErrNoTask):
		return &failure{err.Error() + "; troupe tasks ls --state all lists all", err}
	case errors.Is(err, admin.ErrNoKey):
		return &failure{err.Error() + "; troupe keys ls lists all", err}
	case errors.Is(err, admin.ErrNoRevocation):
		return &failure{err.Error() + "; troupe revoke ls lists all", err}
	case errors.Is(err, admin.ErrNoBackend):
		return &failure{err.Error() + "; troupe backends ls lists all", err}
	case errors.Is(err, operator.ErrNoSession):
		return &failure{err.Error() + "; troupe sessions ls lists all", err}
	case errors.Is(err, operator.ErrNoCall):
		return &failure{err.Error() + "; troupe calls ls lists all", err}
	}
	return &failure{oneLine(err), err}
}

func tasksList(stdout io.Writer, data *string) *cobra.Command {
	q := operator.Query{}
	var asJSON bool
	cmd := &cobra.Command{
		Use:   "ls",
		Short: "List tasks",
		Long: "Lists tasks of all clients in the order of their last change, the oldest first. AGE is how long ago a task was\n" +
			"made, LEFT for how long it is still kept, ATTEMPT how many runs it took so far, NODE which process runs it.",
		Example: `  troupe tasks ls                        what has not ended
  troupe tasks ls --state waiting        what waits for its client
  troupe tasks ls --state all --json | jq '.tasks[].id'`,
		Args: cobra.NoArgs,
		RunE: func(cmd *cobra.Command, _ []string) error {
			if !slices.Contains(operator.TaskStates, q.State) {
				return fmt.Errorf("state is %q: want one of %s", q.State, strings.Join(operator.TaskStates, ", "))
			}
			if err := checkLimit(q); err != nil {
				return err
			}
			return askServer(*data, func(c *admin.Client) error {
				page, err := c.Tasks(cmd.Context(), q)
				switch {
				case err != nil:
					return err
				case asJSON:
					return printJSON(stdout, page)
				}
				return printList(stdout, page, q.State, time.Now())
			})
		},
	}
	f := cmd.Flags()
	f.StringVar(&q.State, "state", "open", "which: "+strings.Join(operator.TaskStates, ", ")+"; open are queued, running and waiting")
	queryFlags(f, &q)
	f.Uint64Var(&q.From, "after", 0, "go on behind the tasks that an earlier list ended with")
	f.BoolVar(&asJSON, "json", false, "print JSON")
	f.SortFlags = false
	return cmd
}

func tasksShow(stdout io.Writer, data *string) *cobra.Command {
	var result, asJSON bool
	cmd := &cobra.Command{
		Use:   "show ID",
		Short: "Show a task: its runs, its steps, what it asks",
		Long: "Shows what is known of a task: the newest of its runs and how they ended, the steps whose results are stored,\n" +
			"with the times that they took, and the questions that wait for its client. Arguments are never shown, and\n" +
			"the result and the texts of questions only with --result.",
		Example: `  troupe tasks show ptcx45ri5yyvsg3jkzqh2w7b4e
  troupe tasks show ID --result --json | jq .result`,
		Args: wantOne("task", "troupe tasks ls"),
		RunE: func(cmd *cobra.Command, args []string) error {
			return askServer(*data, func(c *admin.Client) error {
				d, err := c.Task(cmd.Context(), args[0], result)
				switch {
				case err != nil:
					return err
				case asJSON:
					return printJSON(stdout, d)
				}
				return printTask(stdout, d, time.Now())
			})
		},
	}
	cmd.Flags().BoolVar(&result, "result", false, "with its result, or its error, and with the texts of its questions")
	cmd.Flags().BoolVar(&asJSON, "json", false, "print JSON")
	cmd.Flags().SortFlags = false
	return cmd
}

func tasksCancel(stdout io.Writer, data *string) *cobra.Command {
	return &cobra.Command{
		Use:   "cancel ID",
		Short: "Cancel a task, as its client may",
		Long: "Ends a task as cancelled. Its client sees that, and the context of its handler ends; what the handler has done\n" +
			"stays done. A task that has ended is an error.",
		Example: `  troupe tasks cancel ptcx45ri5yyvsg3jkzqh2w7b4e`,
		Args:    wantOne("task", "troupe tasks ls"),
		RunE: func(cmd *cobra.Command, args []string) error {
			return askServer(*data, func(c *admin.Client) error {
				t, err := c.CancelTask(context.WithoutCancel(cmd.Context()), args[0])
				if err == nil {
					_, err = fmt.Fprintf(stdout, "%s is %s\n", t.ID, t.State)
				}
				return err
			})
		},
	}
}

func printJSON(w io.Writer, v any) error {
	e := json.NewEncoder(w)
	e.SetIndent("", "  ")
	return e.Encode(v)
}

func printList(w io.Writer, page operator.TaskPage, state string, now time.Time) error {
	if len(page.Tasks) == 0 && page.Next == 0 {
		hint := ""
		if state != "all" {
			hint = "; --state all lists those of every state"
		}
		_, err := fmt.Fprintf(w, "there are no such tasks (%s)%s\n", state, hint)
		return err
	}
	t := tabwriter.NewWriter(w, 0, 0, 2, ' ', 0)
	fmt.Fprintln(t, "ID\tSTATE\tTOOL\tSERVER\tPRINCIPAL\tAGE\tLEFT\tATTEMPT\tNODE\tMESSAGE")
	for _, x := range page.Tasks {
		fmt.Fprintf(t, "%s\t%s\t%s\t%s\t%s\t%s\t%s\t%d\t%s\t%s\n", x.ID, x.State, plainLine(x.Tool, 30), plainLine(x.Server, 30), plainLine(principalName(x), 40),
			roughTime(now.Sub(x.Created)), roughTime(x.Expires.Sub(now)), x.Attempt, orDash(x.Node), plainLine(x.Message, 60))
	}
	if page.Next != 0 {
		fmt.Fprintf(t, "there are more: troupe tasks ls --after %d\n", page.Next)
	}
	return t.Flush()
}

func printTask(w io.Writer, d operator.TaskDetail, now time.Time) error {
	t := tabwriter.NewWriter(w, 0, 0, 2, ' ', 0)
	line := func(name, format string, a ...any) { fmt.Fprintf(t, name+"\t"+format+"\n", a...) }
	line("id", "%s", d.ID)
	line("state", "%s", d.State)
	line("tool", "%s of %s", plainLine(d.Tool, 1000), plainLine(d.Server, 1000))
	line("principal", "%s", plainLine(principalName(d.Task), 1000))
	line("tenant", "%s", d.Tenant)
	line("created", "%s, %s ago", d.Created.Format(time.RFC3339), roughTime(now.Sub(d.Created)))
	line("updated", "%s, %s ago", d.Updated.Format(time.RFC3339), roughTime(now.Sub(d.Updated)))
	line("expires", "%s, in %s", d.Expires.Format(time.RFC3339), roughTime(d.Expires.Sub(now)))
	line("attempt", "%d", d.Attempt)
	line("node", "%s", orDash(d.Node))
	line("message", "%s", orDash(plainLine(d.Message, 1000)))
	if len(d.Runs) > 0 {
		fmt.Fprintf(t, "\nRUN\tATTEMPT\tNODE\tBEGAN\tTOOK\tEND\n")
		for _, r := range d.Runs {
			took, how := now.Sub(r.Began), "it runs"
			if r.How != "" {
				took, how = r.Ended.Sub(r.Began), r.How
			}
			fmt.Fprintf(t, "%d\t%d\t%s\t%s\t%s\t%s\n", r.Number, r.Attempt, r.Node, r.Began.Format(time.RFC3339), took.Round(time.Millisecond), how)
		}
		if n := d.AllRuns - len(d.Runs); n > 0 {
			fmt.Fprintf(t, "and %d earlier\n", n)
		}
	}
	if len(d.Steps) > 0 {
		fmt.Fprintf(t, "\nSTEP\tATTEMPT\tBEGAN\tTOOK\tBYTES\tFAILED\n")
		for _, s := range d.Steps {
			failed := "-"
			if s.Failed {
				failed = "for good"
			}
			fmt.Fprintf(t, "%s\t%d\t%s\t%s\t%d\t%s\n", plainLine(s.Name, 60), s.Attempt, s.Began.Format(time.RFC3339), time.Duration(s.TookMS)*time.Millisecond, s.Bytes, failed)
		}
		if n := d.AllSteps - len(d.Steps); n > 0 {
			fmt.Fprintf(t, "and %d more\n", n)
		}
	}
	if len(d.Questions) > 0 {
		fmt.Fprintf(t, "\nQUESTION\tMETHOD\tPARAMS\n")
		for _, q := range d.Questions {
			fmt.Fprintf(t, "%s\t%s\t%s\n", plainLine(q.Key, 60), plainLine(q.Method, 60), orDash(plainLine(string(q.Params), 1000)))
		}
	}
	if err := t.Flush(); err != nil || d.Result == nil {
		return err
	}
	_, err := fmt.Fprintf(w, "\nresult\n%s\n", plainLine(string(d.Result), len(d.Result)))
	return err
}

// principalName names the principal of a task as far as it is known.
func principalName(t operator.Task) string {
	switch {
	case t.Principal != "":
		return t.Principal
	case t.Address != "":
		return t.Address
	}
	return t.Tenant
}

// graphic is a character of somebody else's text for a terminal: one that may move the cursor is replaced.
func graphic(r rune) rune {
	if unicode.IsGraphic(r) {
		return r
	}
	return unicode.ReplacementChar
}

// plainLine is text of a client or a handler on one line of a terminal: nothing in it moves the cursor.
func plainLine(text string, most int) string {
	out := []rune(strings.Map(graphic, text))
	if len(out) > most {
		out = append(out[:most-1], '…')
	}
	return string(out)
}

func orDash(text string) string {
	if text == "" {
		return "-"
	}
	return text
}

// roughTime writes a time with its largest unit or two.
func roughTime(d time.Duration) string {
	switch d = max(0, d); {
	case d < time.Minute:
		return d.Truncate(time.Second).String()
	case d < 48*time.Hour:
		return strings.TrimSuffix(d.Truncate(time.Minute).String(), "0s")
	}
	return fmt.Sprintf("%dd", int(d/(24*time.Hour)))
}
