package main

import (
	"context"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"text/tabwriter"
	"time"

	"github.com/spf13/cobra"

	"github.com/troupe-run/troupe"
	"github.com/troupe-run/troupe/internal/admin"
	"github.com/troupe-run/troupe/internal/apikey"
)

// keysCommand makes API keys, and ends them.
func keysCommand(stdout, stderr io.Writer) *cobra.Command {
	var data string
	cmd := &cobra.Command{
		Use:   "keys",
		Short: "Make API keys for clients, rotate and revoke them",
		Long: "Makes API keys for clients that have no identity provider: they send one as Authorization: Bearer trp_... to a\n" +
			"server with --api-keys. Asks the server that uses a data directory, or opens the store there if none runs; a key\n" +
			"counts for every process that shares the store. A key is shown once, when it is made: only its digest is kept.",
		Example: `  troupe keys create --name CI --server /mcp --scope files:read --expires 90d
  troupe keys ls                         which there are, and when they were last used
  troupe keys rotate CI --overlap 24h    another one; the old one counts for a day
  troupe keys revoke CI                  it ends, on every process within 2 seconds`,
	}
	dataFlag(cmd, &data)
	cmd.AddCommand(keysCreate(stdout, stderr, &data), keysList(stdout, &data), keysRotate(stdout, stderr, &data), keysRevoke(stdout, &data))
	return cmd
}

// askKeys runs f with the keys of the server that uses the data directory, or with those in the store there if no process uses it.
func askKeys(ctx context.Context, data string, f func(admin.Keys) error) error {
	return askStore(ctx, data, func(c *admin.Client) error { return f(c) }, func(rt *troupe.Runtime) error {
		return f(apikey.NewOperated(rt.APIKeys(), func(err error) error { return err }))
	})
}

// askStore runs served with the server that uses the data directory, or alone with the store there if no process uses it.
func askStore(ctx context.Context, data string, served func(*admin.Client) error, alone func(*troupe.Runtime) error) error {
	data, err := dataDirectory(data)
	if err != nil {
		return err
	}
	err = askServer(data, served)
	if !errors.Is(err, admin.ErrNoServer) {
		return err
	}
	if _, gone := os.Stat(filepath.Join(data, "jetstream")); gone != nil {
		return err // there is no store, and one on NATS servers is not here
	}
	o := troupe.Options{Dir: data, Log: slog.New(slog.DiscardHandler), Store: troupe.StoreOptions{NoSocket: true}}
	rt, failed := troupe.New(o)
	if failed != nil {
		return explain(failed, o)
	}
	ended := context.WithoutCancel(ctx)
	if err := alone(rt); err != nil {
		return &failure{oneLine(errors.Join(err, rt.Close(ended))), err}
	}
	if err := rt.Close(ended); err != nil {
		return explain(err, o)
	}
	return nil
}

// days is a time that may be a number of days, such as 90d.
type days time.Duration

func (d *days) String() string {
	if *d == 0 {
		return "never"
	}
	return time.Duration(*d).String()
}

func (d *days) Type() string { return "time" }

func (d *days) Set(s string) error {
	if number, ok := strings.CutSuffix(s, "d"); ok {
		n, err := strconv.ParseUint(number, 10, 16)
		if err != nil || n > 36500 {
			return errors.New("want days from 0d to 36500d, or a time such as 24h")
		}
		*d = days(time.Duration(n) * 24 * time.Hour)
		return nil
	}
	t, err := time.ParseDuration(s)
	if err != nil || t < 0 {
		return errors.New("want a time such as 24h, or days such as 90d")
	}
	*d = days(t)
	return nil
}

// from is the end of a key that is made now, the zero time if it has none.
func (d days) from(now time.Time) time.Time {
	if d == 0 {
		return time.Time{}
	}
	return now.Add(time.Duration(d))
}

func keysCreate(stdout, stderr io.Writer, data *string) *cobra.Command {
	var want admin.KeyRequest
	var expires days
	var asJSON bool
	cmd := &cobra.Command{
		Use:   "create --name NAME",
		Short: "Make an API key",
		Long: "Makes an API key and writes it to standard output, this once; what else there is to say goes to standard error.\n" +
			"Without --server it is for every server, without --scope it has no scope, and without --expires it does not end. Its\n" +
			"name is for people, and another key may have it once this one has ended.",
		Example: `  troupe keys create --name CI --server /mcp --scope files:read --expires 90d
  troupe keys create --name CI | gh secret set TROUPE_KEY`,
		Args: cobra.NoArgs,
		RunE: func(cmd *cobra.Command, _ []string) error {
			if want.Name == "" {
				return errors.New("name is empty: say what the key is for, such as --name CI")
			}
			want.Expires = expires.from(time.Now())
			return askKeys(cmd.Context(), *data, func(c admin.Keys) error {
				k, err := c.CreateKey(context.WithoutCancel(cmd.Context()), want)
				return printNewKey(stdout, stderr, k, err, asJSON, "")
			})
		},
	}
	f := cmd.Flags()
	f.StringVar(&want.Name, "name", "", "`name` of the key, for people")
	f.StringArrayVar(&want.Servers, "server", nil, "`server` that the key is for, by its path or its id; may be repeated (all)")
	f.StringArrayVar(&want.Scopes, "scope", nil, "`scope` that the key has; may be repeated (none)")
	f.Var(&expires, "expires", "`time` after which the key ends, such as 90d or 12h")
	f.BoolVar(&asJSON, "json", false, "print JSON")
	f.SortFlags = false
	return cmd
}

func keysList(stdout io.Writer, data *string) *cobra.Command {
	var asJSON bool
	cmd := &cobra.Command{
		Use:   "ls",
		Short: "List API keys",
		Long: "Lists API keys, the oldest first. USED is the day on which a key was last used, in UTC. One that was revoked is\n" +
			"listed until it would have ended, for 90 days at most, and one that has expired for 30 days.",
		Example: `  troupe keys ls
  troupe keys ls --json | jq -r '.[] | select(.used == null) | .name'`,
		Args: cobra.NoArgs,
		RunE: func(cmd *cobra.Command, _ []string) error {
			return askKeys(cmd.Context(), *data, func(c admin.Keys) error {
				all, err := c.Keys(cmd.Context())
				switch {
				case err != nil:
					return err
				case asJSON:
					return printJSON(stdout, all)
				}
				return printKeys(stdout, all, time.Now())
			})
		},
	}
	cmd.Flags().BoolVar(&asJSON, "json", false, "print JSON")
	return cmd
}

func keysRotate(stdout, stderr io.Writer, data *string) *cobra.Command {
	var overlap, expires days
	var asJSON bool
	cmd := &cobra.Command{
		Use:   "rotate NAME|ID",
		Short: "Replace the secret of an API key",
		Long: "Makes another secret for a key and writes it to standard output, this once. The key keeps its id, its servers and its\n" +
			"scopes, and so its clients keep their sessions and tasks. The old secret counts for the time of --overlap, and no\n" +
			"longer than before.",
		Example: `  troupe keys rotate CI --overlap 24h
  troupe keys rotate CI --overlap 24h --expires 90d   and the new one ends in 90 days`,
		Args: wantOne("key", "troupe keys ls"),
		RunE: func(cmd *cobra.Command, args []string) error {
			r := admin.Rotation{Overlap: time.Duration(overlap), Expires: expires.from(time.Now())}
			return askKeys(cmd.Context(), *data, func(c admin.Keys) error {
				k, err := c.RotateKey(context.WithoutCancel(cmd.Context()), args[0], r)
				return printNewKey(stdout, stderr, k, err, asJSON, oldSecret(k.Expires, time.Now(), r.Overlap))
			})
		},
	}
	f := cmd.Flags()
	f.Var(&overlap, "overlap", "`time` for which the old secret still counts, such as 24h (it ends at once)")
	f.Var(&expires, "expires", "`time` after which the key ends, such as 90d (as before)")
	for _, name := range []string{"overlap", "expires"} {
		f.Lookup(name).DefValue = "" // of a time without an end it would be said that it is "never"
	}
	f.BoolVar(&asJSON, "json", false, "print JSON")
	f.SortFlags = false
	return cmd
}

// oldSecret says for how long the secrets still count that a key had before it was rotated.
func oldSecret(expires *time.Time, now time.Time, overlap time.Duration) string {
	until := now.Add(overlap)
	switch {
	case overlap == 0:
		return "The secret before it has ended.\n"
	case expires != nil && expires.Before(until):
		until = *expires
	}
	return "The secret before it counts until " + until.UTC().Format(time.RFC3339) + " at the latest.\n"
}

func keysRevoke(stdout io.Writer, data *string) *cobra.Command {
	var asJSON bool
	cmd := &cobra.Command{
		Use:   "revoke NAME|ID",
		Short: "End an API key",
		Long: "Ends an API key with all its secrets, and the event streams, sessions, calls and tasks of its clients: on every\n" +
			"process that shares the store, within 2 seconds or once it reaches the store again. There is no way back.",
		Example: `  troupe keys revoke CI`,
		Args:    wantOne("key", "troupe keys ls"),
		RunE: func(cmd *cobra.Command, args []string) error {
			return askKeys(cmd.Context(), *data, func(c admin.Keys) error {
				k, err := c.RevokeKey(context.WithoutCancel(cmd.Context()), args[0])
				switch {
				case err != nil:
					return err
				case asJSON:
					return printJSON(stdout, k)
				}
				_, err = fmt.Fprintf(stdout, "%s (%s) is revoked\n", plainLine(k.Name, 64), k.ID)
				return err
			})
		},
	}
	cmd.Flags().BoolVar(&asJSON, "json", false, "print JSON")
	return cmd
}

// printNewKey writes a key to stdout, and to stderr what a person needs beside it. before is about the secrets before it.
func printNewKey(stdout, stderr io.Writer, k admin.NewKey, err error, asJSON bool, before string) error {
	switch {
	case err != nil:
		return err
	case asJSON:
		return printJSON(stdout, k)
	}
	ends := "it does not end"
	if k.Expires != nil {
		ends = "it ends at " + k.Expires.Format(time.RFC3339)
	}
	if _, err := fmt.Fprintln(stdout, k.Secret); err != nil {
		return err
	}
	_, err = fmt.Fprintf(stderr, "\nThis is the key %s (%s); %s. It is shown this once: only its digest is kept.\n%sClients send it as Authorization: Bearer KEY.\n", plainLine(k.Name, 64), k.ID, ends, before)
	return err
}

func printKeys(w io.Writer, all []admin.Key, now time.Time) error {
	if len(all) == 0 {
		_, err := fmt.Fprintln(w, "there are no API keys: troupe keys create makes one")
		return err
	}
	t := tabwriter.NewWriter(w, 0, 0, 2, ' ', 0)
	fmt.Fprintln(t, "ID\tNAME\tSERVERS\tSCOPES\tAGE\tLEFT\tUSED")
	for _, k := range all {
		left, servers := "no end", "all"
		switch {
		case k.Revoked != nil:
			left = "revoked"
		case k.Expires != nil && !now.Before(*k.Expires):
			left = "expired"
		case k.Expires != nil:
			left = roughTime(k.Expires.Sub(now))
		}
		if len(k.Servers) > 0 {
			servers = strings.Join(k.Servers, ",")
		}
		fmt.Fprintf(t, "%s\t%s\t%s\t%s\t%s\t%s\t%s\n", k.ID, plainLine(k.Name, 40), plainLine(servers, 40), orDash(plainLine(strings.Join(k.Scopes, " "), 60)), roughTime(now.Sub(k.Created)), left, orDash(k.Used))
	}
	return t.Flush()
}
