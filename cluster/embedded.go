package cluster

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"log/slog"
	"os"
	"path/filepath"
	"strings"
	"time"

	"github.com/nats-io/nats-server/v2/server"
	"github.com/nats-io/nats.go"
)

// startTimeout bounds the server's start, without the recovery of its store.
const startTimeout = 10 * time.Second

// serverOptions returns the embedded server's options: it listens nowhere, takes
// no signals, and has our limits.
func serverOptions(o *Options, name string) *server.Options {
	return &server.Options{
		ServerName: name,
		DontListen: true,
		NoSigs:     true,
		// The streams take this from here, although JetStream's own configuration
		// has it as well. The server never flushes each write: see flusher.
		SyncInterval:           syncInterval(o),
		DisableJetStreamBanner: true,
		MaxPayload:             maxPayload,
		MaxPending:             64 << 20,
		MaxControlLine:         4096,
		JetStreamLimits: server.JSLimitOpts{
			MaxRequestBatch:           500, // of messages that a consumer may ask for at once
			MaxAckPending:             maxWork,
			Duplicates:                2 * time.Minute,
			DefaultMaxConsumers:       maxConsumers,
			MaxBatchInflightPerStream: 1,
			MaxBatchInflightTotal:     1,
			MaxBatchSize:              1,
		},
	}
}

func syncInterval(o *Options) time.Duration {
	if o.Sync <= 0 {
		return defaultSync
	}
	return o.Sync
}

// startServer starts the embedded server with JetStream over dir. reserved is how
// many bytes the existing streams may hold: with less the server would refuse to
// change any of them, even to lower its limit.
func (n *Node) startServer(dir string, reserved int64) (*server.Server, error) {
	o := &n.opts
	var before blocks
	if o.Dir != "" {
		before = n.dir.listBlocks()
		if err := before.forgetIndexes(); err != nil {
			return nil, err
		}
	}
	so := serverOptions(o, n.name)
	if o.Listen.isSet() {
		if err := n.setListenOptions(so); err != nil {
			return nil, fmt.Errorf("cluster: listen for nodes on %s: %w", o.Listen.Address, err)
		}
	}
	s, err := server.NewServer(so)
	if err != nil {
		return nil, fmt.Errorf("cluster: embedded server: %w", err)
	}
	lg := serverLog{log: o.Log.With("component", "nats")}
	if o.Dir != "" {
		lg.failed = n.outages.noteServerError
	}
	s.SetLoggerV2(lg, false, false, false)
	s.Start()
	if !s.ReadyForConnections(startTimeout) {
		stopServer(s)
		return nil, fmt.Errorf("cluster: embedded server: not ready after %v", startTimeout)
	}
	if o.Listen.isSet() {
		n.listens = s.Addr()
	}
	c := &server.JetStreamConfig{StoreDir: dir, SyncInterval: syncInterval(o), SyncAlways: so.SyncAlways, MaxStore: max(o.MaxStore, reserved), MaxMemory: minStore}
	if o.Dir == "" {
		c.MaxStore, c.MaxMemory = minStore, o.MaxStore
	}
	if err := s.EnableJetStream(c); err != nil {
		stopServer(s)
		switch {
		case o.Dir == "":
		case noRoom(err.Error()):
			return nil, fmt.Errorf("cluster: data directory %s: the disk is full: %w", o.Dir, err)
		case errors.Is(err, fs.ErrPermission):
			return nil, fmt.Errorf("cluster: data directory %s: %w", o.Dir, err)
		default:
			return nil, n.dir.damagedStore(err.Error())
		}
		return nil, fmt.Errorf("cluster: embedded server: %w", err)
	}
	n.checkBlocks(before)
	return s, nil
}

func stopServer(s *server.Server) {
	s.Shutdown()
	s.WaitForShutdown()
}

// connectServer opens a connection to the server, which is in this process or remote.
func (n *Node) connectServer(ctx context.Context, name string, more ...nats.Option) (*nats.Conn, error) {
	more = append(n.connOptions(name), more...)
	if n.opts.Remote.isSet() {
		return n.dialRemote(ctx, more)
	}
	if n.opts.Listen.Token != "" {
		more = append(more, nats.Token(n.opts.Listen.Token))
	}
	nc, err := nats.Connect("", append(more, nats.InProcessServer(&n.link), nats.ReconnectWait(100*time.Millisecond), nats.ReconnectJitter(0, 0))...)
	if err != nil {
		return nil, fmt.Errorf("cluster: connect: %w", err)
	}
	return nc, nil
}

// connOptions are the options of every connection.
func (n *Node) connOptions(name string) []nats.Option {
	return []nats.Option{
		nats.Name(name), nats.MaxReconnects(-1),
		// Without a buffer a call fails at once, not done, while there is no
		// connection. With one it could happen after its caller gave up.
		nats.ReconnectBufSize(-1),
		nats.FlusherTimeout(callTimeout),
		nats.DisconnectErrHandler(func(_ *nats.Conn, err error) {
			if err != nil { // Nil means that we closed it.
				n.log.Warn("connection to nats lost", "error", err)
			}
		}),
		nats.ReconnectHandler(func(nc *nats.Conn) {
			if n.opts.Remote.isSet() {
				n.log.Info("connected to nats again", "server", nc.ConnectedServerName())
			}
		}),
		nats.ErrorHandler(func(_ *nats.Conn, _ *nats.Subscription, err error) {
			n.log.Warn("nats", "error", err)
		}),
	}
}

// tempDirs are where the directory of memoryDir may be made. Containers whose root cannot be written mostly have the second.
func tempDirs() []string { return []string{os.TempDir(), "/dev/shm", "/var/tmp", "/run"} }

// memoryDir makes the directory that JetStream requires for its start even if it keeps nothing
// in it.
func memoryDir(in []string) (string, error) {
	var tried []string
	for _, parent := range in {
		dir, err := os.MkdirTemp(parent, "troupe-")
		if err == nil {
			return dir, nil
		}
		if failed, ok := errors.AsType[*fs.PathError](err); ok {
			err = failed.Err
		}
		tried = append(tried, fmt.Sprintf("%s: %v", parent, err))
	}
	return "", fmt.Errorf("cluster: a store in memory needs an empty directory while it starts, and none can be made (%s): set TMPDIR to a directory that can be written", strings.Join(tried, "; "))
}

// storePath makes the store's directory with the permissions we want.
func (d *directory) storePath() (string, error) {
	if err := os.MkdirAll(filepath.Join(d.path, storeDir), 0o700); err != nil {
		return "", fmt.Errorf("cluster: data directory: %w", err)
	}
	return d.path, nil
}

// serverLog passes on what the embedded server logs. Its notices do not matter to
// our operator, so they go down a level.
type serverLog struct {
	log    *slog.Logger
	failed func(text string) // gets every error; may be nil
}

func (l serverLog) at(level slog.Level, format string, v []any) {
	if l.log.Enabled(context.Background(), level) {
		l.log.Log(context.Background(), level, fmt.Sprintf(format, v...))
	}
}

func (l serverLog) Noticef(format string, v ...any) { l.at(slog.LevelDebug, format, v) }
func (l serverLog) Warnf(format string, v ...any)   { l.at(slog.LevelWarn, format, v) }
func (l serverLog) Fatalf(format string, v ...any)  { l.Errorf(format, v...) }
func (l serverLog) Debugf(format string, v ...any)  { l.at(slog.LevelDebug, format, v) }
func (l serverLog) Tracef(format string, v ...any)  { l.at(slog.LevelDebug, format, v) }

// Errorf logs an error, and passes it on to the watcher of failed writes.
func (l serverLog) Errorf(format string, v ...any) {
	if l.failed != nil {
		l.failed(fmt.Sprintf(format, v...))
	}
	l.at(slog.LevelError, format, v)
}

// checkBlocks logs and counts what the server could not read of the files that were there before it started.
func (n *Node) checkBlocks(before blocks) {
	for stream, files := range before {
		if len(files) == 0 {
			n.counters.unreadable.Add(1)
			n.log.Error("a stream of the store has no file with messages: what it held is lost", "stream", stream, "lost", describeLoss(stream))
		}
		for path, was := range files {
			if is, err := os.Stat(path); err == nil && os.SameFile(was, is) && is.Size() < was.Size() {
				n.counters.unreadable.Add(1)
				n.log.Error("the end of a file of the store cannot be read: the records in it are lost, unless it is a write that was never acknowledged",
					"stream", stream, "file", path, "bytes", was.Size()-is.Size())
			}
		}
	}
}

// Unreadable counts the files of the store in this process that were missing or could not be read to their end when it was opened.
func (n *Node) Unreadable() uint64 { return n.counters.unreadable.Load() }
