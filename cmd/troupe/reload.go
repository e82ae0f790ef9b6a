package main

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"os"
	"slices"
	"strings"

	"github.com/spf13/cobra"
	"github.com/spf13/pflag"
	"go.opentelemetry.io/otel/attribute"
	"go.opentelemetry.io/otel/metric"

	"github.com/troupe-run/troupe"
)

// commandLine is the key of the arguments of the process in the context of a command.
type commandLine struct{}

// atOnce are the settings that apply while the process runs; the sections auth and backends are others.
var atOnce = []string{"auth-issuer", "auth-audience", "auth-scope", "api-keys", "servers"}

// reloader reads the config file again, those of backends, and the files of the TLS certificate.
type reloader struct {
	began    *settings // those with which the process began
	cmd      *cobra.Command
	rt       *troupe.Runtime
	backends *hosted // nil for the demo
	log      *slog.Logger
	reloads  metric.Int64Counter
	manager  *serviceManager
	status   string // what the manager hears when the process serves
}

func newReloader(s *settings, cmd *cobra.Command, rt *troupe.Runtime, backends *hosted, log *slog.Logger, meters metric.MeterProvider, manager *serviceManager, status string) (*reloader, error) {
	reloads, err := meters.Meter("github.com/troupe-run/troupe/cmd/troupe").Int64Counter("troupe.config.reloads",
		metric.WithUnit("{reload}"), metric.WithDescription("Times that the file of --config was read again, by outcome."))
	return &reloader{s, cmd, rt, backends, log, reloads, manager, status}, err
}

// watchSignals reads the files again for each signal.
func (r *reloader) watchSignals(ctx context.Context, hangups <-chan os.Signal) {
	for {
		select {
		case <-ctx.Done():
			return
		case <-hangups:
		}
		r.manager.reloading()
		r.readFiles(ctx)
		if ctx.Err() == nil { // otherwise it has heard that the process drains
			r.manager.ready(r.status)
		}
	}
}

// readFiles reads the files of the TLS certificate, that of --config, and those of backends.
func (r *reloader) readFiles(ctx context.Context) {
	files := r.files()
	if files == "" && r.began.tlsCert == "" {
		r.log.Info("SIGHUP reads the files of --config and --servers again, and there is none")
		return
	}
	_ = r.rt.ReloadTLS() // it logs and counts what it finds
	if files == "" {
		return
	}
	outcome := "applied"
	if err := r.reload(); err != nil {
		outcome = "refused"
		r.log.Error("the config file was read again and cannot be used: all settings stay as they were", "file", files, "error", oneLine(err))
	}
	r.reloads.Add(ctx, 1, metric.WithAttributes(attribute.String("outcome", outcome)))
}

// files are those that are read again.
func (r *reloader) files() string {
	all := r.began.servers
	if r.began.command != nil {
		all = nil
	}
	if r.began.config != "" {
		all = append([]string{r.began.config}, all...)
	}
	return strings.Join(all, " ")
}

// reload applies what of the files applies at once, or changes nothing.
func (r *reloader) reload() error {
	var s settings
	cmd := &cobra.Command{}
	s.register(cmd, settingGroups, serveFlags...)
	args, _ := r.cmd.Context().Value(commandLine{}).([]string)
	if err := cmd.ParseFlags(args); err != nil {
		return err
	}
	s.inherited, s.command = r.began.inherited, r.began.command
	s.loadedTLS = [2]string{r.began.tlsCert, r.began.tlsKey} // ReloadTLS judges them, and whose tokens count does not hang on it
	if err := s.readSettings(); err != nil {
		return err
	}
	if r.backends != nil && s.hosted == nil {
		return errors.New("there is no backend any more, and a server does not begin to serve the demo while it runs")
	}
	later := laterSettings(r.began.table, s.table)
	began := r.began
	switch {
	case began.authConfig() != nil:
		// What clients are told of the server stays, and tokens with it.
		s.listen, s.publicURL, s.tlsCert, s.allowAnonymous, s.conformance = began.listen, began.publicURL, began.tlsCert, began.allowAnonymous, began.conformance
		if err := s.checkAuth(); err != nil {
			return fmt.Errorf("with the public-url, and other addresses, with which the process began: %w", s.table.explainSources(err))
		}
		if began.takesTokens() && !s.takesTokens() {
			return errors.New("no token would count any more, and a server does not begin to let in everybody while it runs: leave auth-issuer, an issuer in the section auth, or api-keys")
		}
		if err := r.rt.SetAuth(s.authConfig()); err != nil {
			return err
		}
	case s.authConfig() != nil:
		later = append(later, "auth")
	}
	switch {
	case r.backends == nil && s.hosted != nil:
		later = append(later, "backends")
	case r.backends != nil:
		if err := r.backends.serve(s.hosted); err != nil {
			return err
		}
	}
	r.log.Info("the config file was read again", "file", r.files())
	if len(later) > 0 {
		r.log.Warn("these settings differ from those with which the process began, and apply when it starts anew", "settings", strings.Join(later, " "))
	}
	return nil
}

// laterSettings are the settings that differ between two tables and do not apply at once.
func laterSettings(a, b *settingTable) (names []string) {
	a.VisitAll(func(f *pflag.Flag) {
		if !slices.Contains(atOnce, f.Name) && f.Value.String() != b.Lookup(f.Name).Value.String() {
			names = append(names, f.Name)
		}
	})
	return names
}
