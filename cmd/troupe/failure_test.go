package main

import (
	"errors"
	"fmt"
	"io/fs"
	"net"
	"os"
	"strings"
	"syscall"
	"testing"

	"github.com/troupe-run/troupe"
)

func TestExplain(t *testing.T) {
	t.Parallel()
	listen := func(err error) error {
		return fmt.Errorf("troupe: %w", &net.OpError{Op: "listen", Net: "tcp", Err: os.NewSyscallError("bind", err)})
	}
	for _, tt := range []struct {
		err  error
		want string
	}{
		{fmt.Errorf("troupe: %w", troupe.ErrLocked), "another process uses the data directory /data: stop it and wait for its end, half a minute as it drains, or "},
		{fmt.Errorf("troupe: %w", troupe.ErrNewer), "a newer release has written the data directory /data, "},
		{fmt.Errorf("troupe: cluster: troupe.json: %w", troupe.ErrDamaged), "the data directory /data is damaged and left as it was (troupe.json: damaged): "},
		{fmt.Errorf("troupe: %w", troupe.ErrForeign), "/data holds files that are not troupe's "},
		{fmt.Errorf("troupe: %w", &fs.PathError{Op: "mkdir", Path: "/data", Err: syscall.EACCES}), "the data directory /data cannot be used (mkdir /data: permission denied): "},
		{fmt.Errorf("%w: %s", troupe.ErrExposed, "0.0.0.0:80"), "other machines can reach 127.0.0.9:80 without authentication: "},
		{errors.Join(listen(syscall.EADDRINUSE), nil), "another process listens on 127.0.0.9:80 already: "},
		{listen(syscall.EADDRNOTAVAIL), "this machine has no address 127.0.0.9:80: "},
		{listen(syscall.EACCES), "not permitted (listen tcp: bind: permission denied): "},
		{fmt.Errorf("troupe: health: %w", &net.OpError{Op: "listen", Net: "tcp", Err: syscall.EADDRINUSE}), "another process listens on 127.0.0.9:90 already: stop it, or choose another address with --health-listen "},
		{errors.Join(errors.New("troupe: serve: broken"), errors.New("more")), "serve: broken; more"},
	} {
		got := explain(tt.err, troupe.Options{Dir: "/data", Listen: "127.0.0.9:80", HTTP: troupe.HTTPOptions{HealthListen: "127.0.0.9:90"}})
		if !strings.HasPrefix(got.Error(), tt.want) || strings.Contains(got.Error(), "\n") {
			t.Errorf("%q is explained as %q, want one line that begins with %q", tt.err, got, tt.want)
		}
		if !errors.Is(got, tt.err) {
			t.Errorf("%q does not wrap what it explains", got)
		}
	}
}
