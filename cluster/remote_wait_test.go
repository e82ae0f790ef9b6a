package cluster

import (
	"errors"
	"log/slog"
	"strings"
	"testing"
	"time"

	"github.com/nats-io/nats-server/v2/server"

	"github.com/troupe-run/troupe/test/kit"
)

// TestWaitForServers starts a node whose servers are not there: after two seconds it says once for what it waits and for how
// long, and gives up then.
func TestWaitForServers(t *testing.T) {
	kit.Bubble(t, func(t *testing.T) {
		var log syncBuffer
		began := time.Now()
		o := Options{Remote: Remote{URL: "nats://user:secret@127.0.0.1:1"}, Log: slog.New(slog.NewTextHandler(&log, nil))}
		silent := time.AfterFunc(silentStart-time.Millisecond, func() {
			if log.String() != "" {
				t.Errorf("within two seconds the log has %s", log.String())
			}
		})
		defer silent.Stop()
		_, err := Open(t.Context(), o)
		if !errors.Is(err, ErrRemote) || time.Since(began).Round(time.Second) != remoteStart {
			t.Errorf("after %v: %v", time.Since(began), err)
		}
		if got := log.String(); strings.Count(got, "\n") != 1 || strings.Contains(got, "secret") ||
			!strings.Contains(got, `msg="waiting for nats: no server answers yet" servers=nats://127.0.0.1:1 gives_up_in=28s error=`) {
			t.Errorf("the log has %s", got)
		}
	})
}

// TestServersWithoutJetStream: servers may begin to serve it as long as the start lasts.
func TestServersWithoutJetStream(t *testing.T) {
	kit.BubbleNATS(t, func(o *server.Options) { o.JetStream = false }, func(t *testing.T, v *kit.VirtualNATS) {
		began := time.Now()
		_, err := Open(t.Context(), Options{Remote: Remote{URL: v.Line("a").URL()}})
		if !errors.Is(err, ErrRemote) || !strings.Contains(err.Error(), "nobody serves JetStream") || time.Since(began).Round(time.Second) != remoteStart {
			t.Errorf("after %v: %v", time.Since(began), err)
		}
	})
}
