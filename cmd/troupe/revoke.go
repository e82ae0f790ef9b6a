package main

import (
	"context"
	"errors"
	"fmt"
	"io"
	"text/tabwriter"
	"time"

	"github.com/spf13/cobra"

	"github.com/troupe-run/troupe"
	"github.com/troupe-run/troupe/internal/admin"
	"github.com/troupe-run/troupe/internal/revocation"
)

// revokeCommand ends the access of users, clients and API keys.
func revokeCommand(stdout io.Writer) *cobra.Command {
	var data string
	var want admin.RevocationRequest
	var life days
	var asJSON bool
	cmd := &cobra.Command{
		Use:   "revoke --subject S|--client C|--key K",
		Short: "End the access of a user, a client or an API key",
		Long: "Ends the event streams, sessions, calls and tasks of a user, a client or an API key, and refuses the access tokens of\n" +
			"these that were issued before now: on every process that shares the store, within 2 seconds or once it reaches the\n" +
			"store again. Who gets a new token from the issuer comes in again, unless --ban refuses those, too. An API key is\n" +
			"revoked for good. Asks the server that uses a data directory, or opens the store there if none runs.\n\n" +
			"Tokens are refused for the time of --for: that must be as long as a token of the issuer lives. A token that does not\n" +
			"say when it was issued counts as issued before. An issuer that the server does not have is refused, and it says how\n" +
			"much of theirs was found.",
		Example: `  troupe revoke --subject alice --issuer https://id.example.com
  troupe revoke --client 5f2c --for 7d     its tokens live for a week
  troupe revoke --subject mallory --ban    until troupe revoke rm
  troupe revoke --key CI                   as troupe keys revoke
  troupe revoke ls                         who is revoked, and for how long
  troupe revoke rm k3w7gqm2xz4ptn5a        tokens of these count again`,
		Args: cobra.NoArgs,
		RunE: func(cmd *cobra.Command, _ []string) error {
			switch {
			case cmd.Flags().Changed("for") && life == 0:
				return errors.New("for is 0: want the longest life of a token, such as 24h or 7d")
			case want.Key != "" && (want.Issuer != "" || want.Ban || life != 0):
				return errors.New("key stands alone: an API key has no issuer, and is revoked for good")
			case want.Ban && life != 0:
				return errors.New("ban and for exclude each other: a ban has no end")
			}
			want.Expires = life.from(time.Now())
			return askRevocations(cmd.Context(), data, func(v admin.Revocations) error {
				r, err := v.Revoke(context.WithoutCancel(cmd.Context()), want)
				switch {
				case err != nil:
					return err
				case asJSON:
					return printJSON(stdout, r)
				case want.Key != "":
					_, err = fmt.Fprintf(stdout, "the API key %s is revoked\n", r.Subject)
				default:
					_, err = fmt.Fprintf(stdout, "%s %s is revoked: %s (%s)\n%s", kindOf(&r), plainLine(whoOf(&r), 100), untilOf(&r), r.ID, heldOf(&r))
				}
				return err
			})
		},
	}
	dataFlag(cmd, &data)
	f := cmd.Flags()
	f.StringVar(&want.Subject, "subject", "", "`subject` of the tokens, as their sub has it: a user or a machine")
	f.StringVar(&want.Client, "client", "", "`id` of the client that got the tokens, for whomever")
	f.StringVar(&want.Key, "key", "", "`key`, by its name or its id")
	f.StringVar(&want.Issuer, "issuer", "", "`URL` of the issuer of the tokens (any)")
	f.BoolVar(&want.Ban, "ban", false, "refuse all tokens, until troupe revoke rm")
	f.Var(&life, "for", "`time` for which tokens are refused that were issued before, such as 7d (24h)")
	f.Lookup("for").DefValue = "" // of a time without an end it would be said that it is "never"
	f.BoolVar(&asJSON, "json", false, "print JSON")
	f.SortFlags = false
	cmd.MarkFlagsOneRequired("subject", "client", "key")
	cmd.MarkFlagsMutuallyExclusive("subject", "client", "key")
	cmd.AddCommand(revokeList(stdout, &data), revokeRemove(stdout, &data))
	return cmd
}

// askRevocations runs f with the revocations of the server that uses the data directory, or with those in the store there if no process uses it.
func askRevocations(ctx context.Context, data string, f func(admin.Revocations) error) error {
	return askStore(ctx, data, func(c *admin.Client) error { return f(c) }, func(rt *troupe.Runtime) error {
		return f(revocation.NewOperated(revocations{rt.Revocations()}, func(err error) error { return err }, revocation.About{}))
	})
}

// revocations are those of a runtime, as the form that an operator sees is made of them.
type revocations struct{ of troupe.Revocations }

func (v revocations) Revoke(ctx context.Context, want revocation.Revocation) (revocation.Revocation, error) {
	r, err := v.of.Revoke(ctx, troupe.Revocation(want))
	return revocation.Revocation(r), err
}

func (v revocations) RevokeKey(ctx context.Context, key string) (revocation.Revocation, error) {
	r, err := v.of.RevokeKey(ctx, key)
	return revocation.Revocation(r), err
}

func (v revocations) List(ctx context.Context) (all []revocation.Revocation, err error) {
	found, err := v.of.List(ctx)
	for _, r := range found {
		all = append(all, revocation.Revocation(r))
	}
	return all, err
}

func (v revocations) Remove(ctx context.Context, id string) (revocation.Revocation, error) {
	r, err := v.of.Remove(ctx, id)
	return revocation.Revocation(r), err
}

// kindOf says what a revocation names.
func kindOf(r *admin.Revocation) string {
	if r.Client != "" {
		return "client"
	}
	return "subject"
}

// whoOf is whom it names.
func whoOf(r *admin.Revocation) string {
	if r.Client != "" {
		return r.Client
	}
	return r.Subject
}

// untilOf says which tokens are refused.
func untilOf(r *admin.Revocation) string {
	if r.Expires == nil {
		return "all tokens are refused until it is removed"
	}
	return "tokens issued before " + r.Created.Format(time.RFC3339) + " are refused until " + r.Expires.Format(time.RFC3339)
}

// heldOf says what ends by it, where that is known.
func heldOf(r *admin.Revocation) string {
	if r.Held == nil {
		return ""
	}
	return fmt.Sprintf("%d sessions, %d calls on this node and %d tasks of theirs were found\n", r.Held.Sessions, r.Held.Calls, r.Held.Tasks)
}

func revokeList(stdout io.Writer, data *string) *cobra.Command {
	var asJSON bool
	cmd := &cobra.Command{
		Use:   "ls",
		Short: "List revocations",
		Long: "Lists whose tokens are refused, the oldest first. AGE says before which time a token was issued that is refused,\n" +
			"LEFT for how long it still is. One of an API key has the issuer troupe:keys; troupe keys ls shows those, too.",
		Example: `  troupe revoke ls
  troupe revoke ls --json | jq -r '.[] | select(.expires == null) | .subject'`,
		Args: cobra.NoArgs,
		RunE: func(cmd *cobra.Command, _ []string) error {
			return askRevocations(cmd.Context(), *data, func(v admin.Revocations) error {
				all, err := v.Revocations(cmd.Context())
				switch {
				case err != nil:
					return err
				case asJSON:
					return printJSON(stdout, all)
				}
				return printRevocations(stdout, all, time.Now())
			})
		},
	}
	cmd.Flags().BoolVar(&asJSON, "json", false, "print JSON")
	return cmd
}

func printRevocations(w io.Writer, all []admin.Revocation, now time.Time) error {
	if len(all) == 0 {
		_, err := fmt.Fprintln(w, "nobody is revoked")
		return err
	}
	t := tabwriter.NewWriter(w, 0, 0, 2, ' ', 0)
	fmt.Fprintln(t, "ID\tKIND\tWHO\tISSUER\tAGE\tLEFT")
	for _, r := range all {
		left, issuer := "banned", "any"
		if r.Expires != nil {
			left = roughTime(r.Expires.Sub(now))
		}
		if r.Issuer != "" {
			issuer = r.Issuer
		}
		fmt.Fprintf(t, "%s\t%s\t%s\t%s\t%s\t%s\n", r.ID, kindOf(&r), plainLine(whoOf(&r), 60), plainLine(issuer, 60), roughTime(now.Sub(r.Created)), left)
	}
	return t.Flush()
}

func revokeRemove(stdout io.Writer, data *string) *cobra.Command {
	var asJSON bool
	cmd := &cobra.Command{
		Use:   "rm ID",
		Short: "Take a revocation back",
		Long: "Takes a revocation back: the tokens that it refused count again, on every process within 2 seconds. What was ended\n" +
			"stays so. An API key stays revoked: make another one.",
		Example: `  troupe revoke rm k3w7gqm2xz4ptn5a`,
		Args:    wantOne("revocation", "troupe revoke ls"),
		RunE: func(cmd *cobra.Command, args []string) error {
			return askRevocations(cmd.Context(), *data, func(v admin.Revocations) error {
				r, err := v.RemoveRevocation(context.WithoutCancel(cmd.Context()), args[0])
				switch {
				case err != nil:
					return err
				case asJSON:
					return printJSON(stdout, r)
				}
				_, err = fmt.Fprintf(stdout, "the revocation of %s %s is removed\n", kindOf(&r), plainLine(whoOf(&r), 100))
				return err
			})
		},
	}
	cmd.Flags().BoolVar(&asJSON, "json", false, "print JSON")
	return cmd
}
