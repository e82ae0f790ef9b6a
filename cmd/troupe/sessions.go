package main

import (
	"context"
	"errors"
	"fmt"
	"io"
	"text/tabwriter"
	"time"

	"github.com/spf13/cobra"
	"github.com/spf13/pflag"

	"github.com/troupe-run/troupe/internal/admin"
	"github.com/troupe-run/troupe/operator"
)

// sessionsCommand looks at the sessions in the store of a server that runs.
func sessionsCommand(stdout io.Writer) *cobra.Command {
	var data string
	cmd := &cobra.Command{
		Use:   "sessions",
		Short: "Look at the sessions in the store, and end them",
		Long: "Asks the server that uses a data directory for the sessions in its store, whichever process serves them. The id\n" +
			"of a session is its client's secret: what is shown in its place is the tag that the logs have, such as\n" +
			"#836b91aa8177. Sessions over HTTP+SSE and stdio are their connections, and not in the store.",
		Example: `  troupe sessions ls                     by the last change of what is stored
  troupe sessions show '#836b91aa8177'   its client, its streams and which process writes them
  troupe sessions end '#836b91aa8177'    as its client may
  troupe sessions end --principal alice  all that alice has: sessions, calls and tasks`,
	}
	dataFlag(cmd, &data)
	cmd.AddCommand(sessionsList(stdout, &data), sessionsShow(stdout, &data), sessionsEnd(stdout, &data))
	return cmd
}

// dataFlag gives a command, and those below it, the flag that names the data directory of the server.
func dataFlag(cmd *cobra.Command, data *string) {
	cmd.PersistentFlags().StringVar(data, "data", "", "data directory of the server ($TROUPE_DATA, else $XDG_STATE_HOME/troupe, else ~/.local/state/troupe)")
}

func sessionsList(stdout io.Writer, data *string) *cobra.Command {
	var q operator.Query
	var asJSON bool
	cmd := &cobra.Command{
		Use:   "ls",
		Short: "List sessions",
		Long: "Lists sessions of all clients in the order in which they were last stored. USED is how long ago the client was\n" +
			"last active, to within a quarter of the time for which an unused session is kept. STREAMS is how many event\n" +
			"streams are stored, with the processes that write them or did so last. TENANT is a hash of whose session it is, as\n" +
			"the store has no name: --principal lists those of a name, and calls ls --json has both for who has a call.",
		Example: `  troupe sessions ls
  troupe sessions ls --principal alice --server /mcp
  troupe sessions ls --json | jq '.sessions[] | select(.allStreams > 10) | .id'`,
		Args: cobra.NoArgs,
		RunE: func(cmd *cobra.Command, _ []string) error {
			if err := checkLimit(q); err != nil {
				return err
			}
			return askServer(*data, func(c *admin.Client) error {
				page, err := c.Sessions(cmd.Context(), q)
				switch {
				case err != nil:
					return err
				case asJSON:
					return printJSON(stdout, page)
				}
				return printSessions(stdout, page, time.Now())
			})
		},
	}
	f := cmd.Flags()
	queryFlags(f, &q)
	f.Uint64Var(&q.From, "after", 0, "go on behind the sessions that an earlier list ended with")
	f.BoolVar(&asJSON, "json", false, "print JSON")
	f.SortFlags = false
	return cmd
}

func sessionsShow(stdout io.Writer, data *string) *cobra.Command {
	var asJSON bool
	cmd := &cobra.Command{
		Use:   "show ID",
		Short: "Show a session: its client, its streams and where they are written",
		Long: "Shows what is stored of a session. ID is the tag that lists and logs have, with or without its #, or the whole id.\n" +
			"What its calls carry, and its values, are never shown.",
		Example: `  troupe sessions show '#836b91aa8177'
  troupe sessions show 836b91aa8177 --json | jq .streams`,
		Args: wantOne("session", "troupe sessions ls"),
		RunE: func(cmd *cobra.Command, args []string) error {
			return askServer(*data, func(c *admin.Client) error {
				s, err := c.Session(cmd.Context(), args[0])
				switch {
				case err != nil:
					return err
				case asJSON:
					return printJSON(stdout, s)
				}
				return printSession(stdout, s, time.Now())
			})
		},
	}
	cmd.Flags().BoolVar(&asJSON, "json", false, "print JSON")
	return cmd
}

func sessionsEnd(stdout io.Writer, data *string) *cobra.Command {
	var principal string
	cmd := &cobra.Command{
		Use:   "end ID | --principal NAME",
		Short: "End a session, or all that a principal has",
		Long: "Ends a session: its calls and streams end on every process, and its id is unknown from then on. Its client has to\n" +
			"begin another one. With --principal everything ends that a principal has: its sessions, its calls without a\n" +
			"session, what it listens to, and its tasks. Each call has one answer, that an operator has ended it. Who must\n" +
			"not come again is for troupe revoke.",
		Example: `  troupe sessions end '#836b91aa8177'
  troupe sessions end --principal alice
  troupe sessions end --principal 'alice of https://login.example.com'`,
		Args: func(_ *cobra.Command, args []string) error {
			if (len(args) == 1) == (principal != "") || len(args) > 1 {
				return errors.New("name one session, or a principal with --principal")
			}
			return nil
		},
		RunE: func(cmd *cobra.Command, args []string) error {
			ctx := context.WithoutCancel(cmd.Context())
			return askServer(*data, func(c *admin.Client) error {
				if principal != "" {
					ended, err := c.EndPrincipal(ctx, principal)
					if err == nil {
						_, err = fmt.Fprintf(stdout, "ended of %s: %d sessions, %d calls on this node, %d tasks\n", plainLine(principal, 1000), ended.Sessions, ended.Calls, ended.Tasks)
					}
					return err
				}
				s, err := c.EndSession(ctx, args[0])
				if err == nil {
					_, err = fmt.Fprintf(stdout, "%s has ended\n", s.ID)
				}
				return err
			})
		},
	}
	cmd.Flags().StringVar(&principal, "principal", "", "whose everything is to end: "+principalNames)
	return cmd
}

// principalNames says how a principal is named.
const principalNames = "its subject, 'SUBJECT of ISSUER', the tenant that lists show, or anon for all without authentication"

// queryFlags are the flags of a list that say whose and how many it has.
func queryFlags(f *pflag.FlagSet, q *operator.Query) {
	f.StringVar(&q.Principal, "principal", "", "whose: "+principalNames)
	f.StringVar(&q.Server, "server", "", "of which server: its path, or its id")
	f.IntVar(&q.Limit, "limit", 100, "how many at most")
}

// checkLimit refuses a limit that is none.
func checkLimit(q operator.Query) error {
	if q.Limit < 1 {
		return fmt.Errorf("limit is %d: want at least 1", q.Limit)
	}
	return nil
}

func printSessions(w io.Writer, page operator.SessionPage, now time.Time) error {
	if len(page.Sessions) == 0 && page.Next == 0 {
		_, err := fmt.Fprintln(w, "there are no sessions")
		return err
	}
	t := tabwriter.NewWriter(w, 0, 0, 2, ' ', 0)
	fmt.Fprintln(t, "ID\tSERVER\tTENANT\tPROTOCOL\tCLIENT\tAGE\tUSED\tLEFT\tSTREAMS\tNODES")
	for _, s := range page.Sessions {
		fmt.Fprintf(t, "%s\t%s\t%s\t%s\t%s\t%s\t%s\t%s\t%d\t%s\n", s.ID, plainLine(s.Server, 30), s.Tenant, orDash(plainLine(s.Revision, 20)), orDash(plainLine(s.Client, 40)),
			roughTime(now.Sub(s.Created)), roughTime(now.Sub(s.Used)), roughTime(s.Expires.Sub(now)), s.AllStreams, orDash(plainLine(writerNodes(s), 40)))
	}
	if page.Next != 0 {
		fmt.Fprintf(t, "there are more: troupe sessions ls --after %d\n", page.Next)
	}
	return t.Flush()
}

// writerNodes names the nodes that write the streams of a session, each once.
func writerNodes(s operator.Session) (names string) {
	seen := make(map[string]bool)
	for _, st := range s.Streams {
		if seen[st.Node] || st.Node == "" {
			continue
		}
		if seen[st.Node] = true; names != "" {
			names += ","
		}
		names += st.Node
	}
	return names
}

func printSession(w io.Writer, s operator.Session, now time.Time) error {
	t := tabwriter.NewWriter(w, 0, 0, 2, ' ', 0)
	line := func(name, format string, a ...any) { fmt.Fprintf(t, name+"\t"+format+"\n", a...) }
	line("id", "%s", s.ID)
	line("server", "%s", plainLine(s.Server, 1000))
	line("tenant", "%s", s.Tenant)
	line("protocol", "%s", orDash(plainLine(s.Revision, 1000)))
	line("client", "%s", orDash(plainLine(s.Client, 1000)))
	line("created", "%s, %s ago", s.Created.Format(time.RFC3339), roughTime(now.Sub(s.Created)))
	line("used", "%s, %s ago", s.Used.Format(time.RFC3339), roughTime(now.Sub(s.Used)))
	line("expires", "%s, in %s", s.Expires.Format(time.RFC3339), roughTime(s.Expires.Sub(now)))
	line("subscribed", "%d resources", s.Subscribed)
	if len(s.Streams) > 0 {
		fmt.Fprintf(t, "\nSTREAM\tNODE\tOF\n")
		for _, st := range s.Streams {
			of := "standalone"
			if !st.Standalone {
				of = ""
				for i, m := range st.Methods {
					if i > 0 {
						of += ", "
					}
					of += m
				}
			}
			fmt.Fprintf(t, "%s\t%s\t%s\n", st.ID, orDash(plainLine(st.Node, 40)), orDash(plainLine(of, 100)))
		}
		if n := s.AllStreams - len(s.Streams); n > 0 {
			fmt.Fprintf(t, "and %d more\n", n)
		}
	}
	return t.Flush()
}
