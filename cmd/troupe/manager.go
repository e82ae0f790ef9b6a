package main

import (
	"context"
	"fmt"
	"log/slog"
	"net"
	"strconv"
	"strings"
	"sync/atomic"
	"time"

	"github.com/coreos/go-systemd/v22/activation"
	"github.com/coreos/go-systemd/v22/daemon"

	"github.com/troupe-run/troupe"
)

// serviceManager is what has started the process and wants to hear how it is: systemd, or another that speaks its
// protocol (sd_notify). Where there is none, nothing is told.
type serviceManager struct {
	log    *slog.Logger
	send   func(state string) error
	missed atomic.Bool // it has not heard what it was told last
}

func newServiceManager(log *slog.Logger) *serviceManager {
	return &serviceManager{log: log, send: func(state string) error {
		_, err := daemon.SdNotify(false, state)
		return err
	}}
}

// tell tells of a state. That the manager does not hear it is no reason to serve nobody, and is logged when it begins and when it ends:
// a watchdog is told often.
func (m *serviceManager) tell(lines ...string) {
	err := m.send(strings.Join(lines, "\n"))
	switch missed := err != nil; {
	case missed == m.missed.Swap(missed):
	case missed:
		m.log.Warn("the service manager does not hear how the process is", "state", lines[0], "error", err)
	default:
		m.log.Info("the service manager hears again how the process is", "state", lines[0])
	}
}

// ready tells that the process serves, or serves with settings that were read again.
func (m *serviceManager) ready(what string) { m.tell(daemon.SdNotifyReady, "STATUS="+what) }

// reloading tells that settings are being read. ready must follow.
func (m *serviceManager) reloading() {
	lines := []string{daemon.SdNotifyReloading, "STATUS=reading the settings again"}
	if now := monotonic(); now > 0 {
		lines = append(lines, "MONOTONIC_USEC="+strconv.FormatInt(now.Microseconds(), 10))
	}
	m.tell(lines...)
}

// stopping tells that the process drains, and for how long at most.
func (m *serviceManager) stopping(most time.Duration) {
	m.tell(daemon.SdNotifyStopping, "STATUS=draining", "EXTEND_TIMEOUT_USEC="+strconv.FormatInt(most.Microseconds(), 10))
}

// keepAlive tells the watchdog of the manager that the process works, as long as it does, until ctx ends. A manager that
// is told nothing for twice as long as every starts another process.
func (m *serviceManager) keepAlive(ctx context.Context, every time.Duration, healthy func() error) {
	tick := time.NewTicker(every)
	defer tick.Stop()
	silent := false
	for {
		select {
		case <-ctx.Done():
			return
		case <-tick.C:
		}
		err := healthy()
		if err == nil {
			m.tell(daemon.SdNotifyWatchdog)
		} else if !silent {
			m.log.Error("the watchdog of the service manager is told nothing any more", "error", err)
		}
		silent = err != nil
	}
}

// watchdogInterval is how often the watchdog of the manager is to be told, 0 if there is none.
func watchdogInterval(log *slog.Logger) time.Duration {
	patience, err := daemon.SdWatchdogEnabled(false)
	if err != nil {
		log.Warn("the service manager does not say how often its watchdog is to be told", "error", err)
	}
	return patience / 2
}

// inherited are the sockets that the service manager has opened, and keeps when the process has ended: those that are nil
// the process opens itself.
type inherited struct{ http, health net.Listener }

// inheritSockets takes the sockets of socket activation: the one with the name health for the probes, and one with any
// other name, such as http or that of its unit, for everything else.
func inheritSockets() (in inherited, err error) {
	for _, f := range activation.Files(true) {
		name := f.Name()
		into, setting := &in.http, "listen"
		if name == "health" {
			into, setting = &in.health, "health-listen"
		}
		ln, failed := net.FileListener(f)
		_ = f.Close() // the listener has a copy
		switch {
		case failed != nil:
			return in, fmt.Errorf("the service manager has handed over %s, which is no socket that listens: %w", name, failed)
		case *into != nil:
			return in, fmt.Errorf("the service manager has handed over two sockets for %s, the second being %s: hand over one, with FileDescriptorName=health for the probes", setting, name)
		}
		*into = ln
	}
	return in, nil
}

// adopt has the settings say where the sockets listen.
func (in inherited) adopt(s *settings) {
	from := source{byCommandLine, "a socket of the service manager"}
	if in.http != nil {
		s.listen, s.table.sources["listen"] = in.http.Addr().String(), from
	}
	if in.health != nil {
		s.healthListen, s.table.sources["health-listen"] = in.health.Addr().String(), from
	}
}

// listen returns the listener to serve on: the one of the manager, which refuses no less than the process's own, or a new one.
func (in inherited) listen(rt *troupe.Runtime, o troupe.Options) (net.Listener, error) {
	if in.http == nil {
		return rt.Listen()
	}
	if tcp, ok := in.http.Addr().(*net.TCPAddr); ok && isExposed(&o) { // adopt has had the options say where it listens
		return nil, fmt.Errorf("%w: %s", troupe.ErrExposed, tcp)
	}
	return troupe.KeepSocket(in.http), nil
}
