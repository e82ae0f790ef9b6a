package cluster

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"log/slog"
	"maps"
	"net"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"sync/atomic"
	"time"

	"github.com/nats-io/nats-server/v2/server"
	"github.com/nats-io/nats.go"
	"github.com/nats-io/nats.go/jetstream"

	"github.com/troupe-run/troupe/cluster/internal/embedded"
	"github.com/troupe-run/troupe/cluster/internal/owner"
	"github.com/troupe-run/troupe/internal/store"
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

// Server is what keeps the store: the server in this process with its data directory, or the connection
// to others.
type Server struct {
	*wire
	dir     *directory             // nil in memory
	tmp     string                 // the directory that JetStream requires in memory mode
	server  *server.Server         // nil if the server is not ours; used by the goroutine of outages while that runs
	listens net.Addr               // where it serves other nodes
	link    faultyLink             // to it
	waits   atomic.Pointer[string] // why no server of Remote has answered yet; nil once one has
	losses  losses
}

// startServer starts the embedded server with JetStream over dir. reserved is how
// many bytes the existing streams may hold: with less the server would refuse to
// change any of them, even to lower its limit.
func (n *Server) startServer(dir string, reserved int64) (*server.Server, error) {
	o := &n.opts
	var before embedded.Blocks
	if o.Dir != "" {
		before = n.dir.ListBlocks(n.dir.id.Streams)
		if err := before.ForgetIndexes(); err != nil {
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
			return nil, n.dir.DamagedStore(err.Error())
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

// connect opens a connection to the server, which is in this process or remote.
func (n *Server) connect(ctx context.Context, name string, more ...nats.Option) (*nats.Conn, error) {
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
func (n *Server) connOptions(name string) []nats.Option {
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
			n.counters.reconnects.Add(1)
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
func (l serverLog) Fatalf(format string, v ...any)  { l.Errorf(format, v...) }
func (l serverLog) Debugf(format string, v ...any)  { l.at(slog.LevelDebug, format, v) }
func (l serverLog) Tracef(format string, v ...any)  { l.at(slog.LevelDebug, format, v) }

// Warnf logs a warning. What a store reads anew after a kill or a restore is no more than a notice to our operator.
func (l serverLog) Warnf(format string, v ...any) {
	level := slog.LevelWarn
	if isReadAnew(fmt.Sprintf(format, v...)) {
		level = slog.LevelInfo
	}
	l.at(level, format, v)
}

// isReadAnew reports whether a warning says that an index is older than the messages, from which it is made again.
func isReadAnew(text string) bool {
	return strings.HasPrefix(text, "Filestore ") && (strings.HasSuffix(text, ", will rebuild") || strings.HasSuffix(text, " errored: prior state file") ||
		strings.Contains(text, " state is outdated; attempting to recover using "))
}

// Errorf logs an error, and passes it on to the watcher of failed writes.
func (l serverLog) Errorf(format string, v ...any) {
	if l.failed != nil {
		l.failed(fmt.Sprintf(format, v...))
	}
	l.at(slog.LevelError, format, v)
}

// messagesDir is where the server in this process keeps the files of a stream's messages.
func (n *Server) messagesDir(stream string) string {
	return filepath.Join(n.dir.StreamDir(n.streamName(stream)), "msgs")
}

// checkBlocks logs and counts what the server could not read of the files that were there before it started.
func (n *Server) checkBlocks(before embedded.Blocks) {
	for stream, files := range before {
		if len(files) == 0 {
			n.counters.unreadable.Add(1)
			n.log.Error("a stream of the store has no file with messages: what it held is lost", "stream", stream, "lost", embedded.DescribeLoss(stream))
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
func (n *Server) Unreadable() uint64 { return n.counters.unreadable.Load() }

// openDirectory is openDirectory of the node's directory. Others may be able to replace it, which is not refused: that cannot be told from a volume of a container
// that is open to all, and is this process's own.
func (n *Server) openDirectory(shards int, names func(shards int) []string) (err error) {
	if n.dir, err = openDirectory(n.opts.Dir, n.opts.Node, shards, names); err != nil {
		return err
	}
	if why, advice := owner.Above(n.dir.Path); why != "" {
		n.log.Warn("other users of this machine may replace the data directory", "directory", n.dir.Path, "why", why, "advice", advice)
	}
	return nil
}

// setListenOptions has the server that is about to start serve other nodes.
func (n *Server) setListenOptions(so *server.Options) error {
	port := 0
	if at, again := n.listens.(*net.TCPAddr); again {
		port = at.Port
	} else if err := n.opts.Listen.checkPortFree(); err != nil {
		return err
	}
	so.SyncAlways = n.opts.Sync < 0 // The flusher would see the writes of this node alone.
	return n.opts.Listen.applyTo(so, port)
}

// Listens returns the address on which the server of this process serves other nodes, or nil.
func (n *Server) Listens() net.Addr { return n.listens }

// dialRemote connects to the servers of Options.Remote. While none answers, it tries again: they may start later than this process.
func (n *Server) dialRemote(ctx context.Context, more []nats.Option) (*nats.Conn, error) {
	r := &n.opts.Remote
	o, err := r.connectOptions()
	if err != nil {
		return nil, err
	}
	o = append(o, more...)
	for {
		nc, err := nats.Connect(r.URL, o...)
		switch {
		case err == nil:
			n.waits.Store(nil)
			return nc, nil
		case isRefused(err):
			return nil, r.wrapFault(err, "check the user, token, nkey or credentials, and what the account may do")
		case ctx.Err() != nil:
			return nil, r.wrapFault(err, "no server answers: start it, or check the address")
		}
		why := err.Error()
		n.waits.Store(&why)
		if !sleep(ctx, 250*time.Millisecond) {
			return nil, r.wrapFault(err, "no server answers: start it, or check the address")
		}
	}
}

// findPrefix takes the prefix that the streams on the servers have where none was given: those of a process that listens have none.
func (n *Server) findPrefix(ctx context.Context) error {
	if !n.opts.guess {
		return nil
	}
	js, err := jetstream.New(n.conn)
	if err != nil {
		return fmt.Errorf("cluster: %w", err)
	}
	for _, name := range []string{n.streamName("nodes"), "nodes"} {
		st, err := n.lookUp(ctx, js, name)
		switch {
		case errors.Is(err, jetstream.ErrStreamNotFound):
			continue
		case err != nil:
			return err
		case st.CachedInfo().Config.Metadata[formatKey] != "" && name == "nodes":
			n.opts.Prefix, n.prefix = "", ""
		}
		return nil
	}
	return nil
}

// lookUp finds a stream, or says that it is not there. Servers that cannot tell yet are asked again.
func (n *Server) lookUp(ctx context.Context, js jetstream.JetStream, name string) (jetstream.Stream, error) {
	r := &n.opts.Remote
	nobody := false // a server has said that nobody serves JetStream; the last try may end without its answer
	for {
		asked, cancel := context.WithTimeout(ctx, callTimeout)
		st, err := js.Stream(asked, name)
		cancel()
		nobody = nobody || errors.Is(err, nats.ErrNoResponders)
		switch {
		case err == nil || errors.Is(err, jetstream.ErrStreamNotFound):
			return st, err
		case errors.Is(err, jetstream.ErrJetStreamNotEnabled) || errors.Is(err, jetstream.ErrJetStreamNotEnabledForAccount):
			return nil, r.wrapFault(err, enableJetStream)
		case sleep(ctx, 250*time.Millisecond):
		case nobody:
			return nil, r.wrapFault(err, "nobody serves JetStream: "+enableJetStream)
		default:
			return nil, r.wrapFault(err, "stream "+name+" cannot be looked up: "+n.permissionAdvice())
		}
	}
}

// sayWaits logs that the start waits, for what, and for how long at most.
func (n *Server) sayWaits() {
	attrs := []any{"servers", n.opts.Remote.String(), "gives_up_in", remoteStart - silentStart}
	if why := n.waits.Load(); why != nil {
		n.log.Warn("waiting for nats: no server answers yet", append(attrs, "error", *why)...)
		return
	}
	n.log.Warn("waiting for nats: the start is not done yet", attrs...)
}

// ensureTime is how long the server in this process may take for each question of ensureStreams: a busy machine does not keep a node from
// its start.
const ensureTime = time.Minute

// ensureStreams creates missing streams, and adapts the limits of the others. The
// streams in must have to exist: a directory that lost one is damaged, and an
// empty stream in its place would hide that.
func (n *Server) ensureStreams(ctx context.Context, must []string) error {
	js, err := jetstream.New(n.conn, jetstream.WithDefaultTimeout(ensureTime))
	if err != nil {
		return fmt.Errorf("cluster: %w", err)
	}
	for i := range n.kinds {
		want := n.streamConfig(&n.kinds[i])
		st, err := js.Stream(ctx, want.Name)
		switch {
		case errors.Is(err, jetstream.ErrStreamNotFound):
			if slices.Contains(must, want.Name) {
				return n.dir.DamagedStream(want.Name, "stream "+want.Name+" did not come up, the log says why")
			}
			if _, err := js.CreateStream(ctx, want); err != nil {
				return fmt.Errorf("cluster: create stream %s: %w", want.Name, err)
			}
		case isOffline(err) && n.dir != nil:
			return embedded.DirError(n.dir.Path, store.ErrNewer, fmt.Sprintf("stream %s: %v", want.Name, err),
				"run the newer release or choose another directory; nothing was changed in it")
		case err != nil:
			return fmt.Errorf("cluster: look up stream %s: %w", want.Name, err)
		default:
			have := st.CachedInfo().Config
			if have.MaxBytes == want.MaxBytes && have.AllowDirect == want.AllowDirect && have.MaxMsgSize == want.MaxMsgSize && have.SubjectDeleteMarkerTTL == want.SubjectDeleteMarkerTTL && have.Duplicates == want.Duplicates &&
				(want.Metadata == nil || have.Metadata[formatKey] == want.Metadata[formatKey]) {
				continue
			}
			if want.Metadata != nil {
				have.Metadata = maps.Clone(have.Metadata)
				if have.Metadata == nil {
					have.Metadata = make(map[string]string)
				}
				maps.Copy(have.Metadata, want.Metadata)
			}
			have.MaxBytes, have.AllowDirect, have.MaxMsgSize = want.MaxBytes, want.AllowDirect, want.MaxMsgSize
			have.SubjectDeleteMarkerTTL, have.Duplicates = want.SubjectDeleteMarkerTTL, want.Duplicates
			if _, err := js.UpdateStream(ctx, have); err != nil {
				return fmt.Errorf("cluster: adapt stream %s: %w", want.Name, err)
			}
		}
	}
	return nil
}

// enableJetStream is what to do about servers without it.
const enableJetStream = "enable JetStream on the servers, and for the account"
