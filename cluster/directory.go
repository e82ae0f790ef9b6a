package cluster

import (
	"bytes"
	"cmp"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/troupe-run/troupe/cluster/internal/embedded"
	"github.com/troupe-run/troupe/cluster/internal/owner"
	"github.com/troupe-run/troupe/internal/store"
)

const (
	lockFile     = "lock"
	identityFile = "troupe.json"
)

// earlyFiles may be in a directory before it has a store: what a file system or a crash during its creation leaves, and those
// of a keeper of processes, which may be started before.
var earlyFiles = []string{lockFile, identityFile + ".tmp", "lost+found", "keeper.sock", "keeper.sock.lock", "keeper.log"}

// identity is what troupe.json holds.
type identity struct {
	Format  int       `json:"format"`
	Node    string    `json:"node"`
	Created time.Time `json:"created"`
	// Shards is how many streams keep the events, if they are several.
	Shards int `json:"shards,omitempty"`
	// Streams are those that were created here and so must exist.
	Streams []string `json:"streams,omitempty"`
}

// StoredName returns the name that the data directory at path has for its node, "" if it has none yet, or cannot be
// used: then Open says why. It neither locks nor checks the directory.
func StoredName(path string) string {
	var id identity
	data, err := os.ReadFile(filepath.Join(path, identityFile))
	if err != nil || json.Unmarshal(data, &id) != nil || checkName("", id.Node) != nil {
		return ""
	}
	return id.Node
}

// NewName returns a name for a node.
func NewName() string { return "node-" + randomName(8) }

// shardCount is how many streams keep the events.
func (id *identity) shardCount() int { return max(id.Shards, 1) }

// directory is a data directory that this process has locked.
type directory struct {
	embedded.Files
	lock *os.File
	id   identity
	// reserved is how many bytes its streams may hold by the limits of the last
	// run.
	reserved int64
}

// openDirectory locks the data directory at path and reads its identity, creating, with the name node if there is one,
// both in a new or empty one. names returns the streams of this node, in the order of
// kinds, by the number of shards, which is the one given only for a new store; without names the store in the directory is
// neither checked nor used. It leaves a directory that it refuses as it was.
func openDirectory(path, node string, shards int, names func(shards int) []string) (*directory, error) {
	path, err := filepath.Abs(path)
	if err != nil {
		return nil, fmt.Errorf("cluster: data directory: %w", err)
	}
	if err := os.MkdirAll(path, 0o700); err != nil {
		return nil, fmt.Errorf("cluster: data directory: %w", err)
	}
	st, err := os.Stat(path)
	if err != nil {
		return nil, fmt.Errorf("cluster: data directory: %w", err)
	}
	// Whoever can put files there can answer in this process's place on its socket, and give it another store.
	if why, advice := owner.Others(path, st); why != "" {
		return nil, embedded.DirError(path, ErrWritable, why, advice)
	}
	d := &directory{Files: embedded.Files{Path: path}}
	// Before the lock, because locking creates a file, and a directory that is
	// refused must not change.
	if _, err := d.readIdentity(); err != nil {
		return nil, err
	}
	_, err = os.Lstat(d.PathOf(lockFile))
	fresh := errors.Is(err, fs.ErrNotExist)
	if err := d.takeLock(); err != nil {
		return nil, err
	}
	if err := d.prepareStore(node, shards, names); err != nil {
		if fresh && (errors.Is(err, store.ErrDamaged) || errors.Is(err, store.ErrNewer) || errors.Is(err, ErrForeign)) {
			_ = os.Remove(d.PathOf(lockFile))
		}
		unlockFile(d.lock)
		_ = d.lock.Close()
		return nil, err
	}
	return d, nil
}

// readIdentity reads troupe.json. It returns false without an error if the
// directory is empty.
func (d *directory) readIdentity() (found bool, err error) {
	data, err := os.ReadFile(d.PathOf(identityFile))
	if errors.Is(err, fs.ErrNotExist) {
		return false, d.checkEmpty()
	}
	if err != nil {
		return false, fmt.Errorf("cluster: data directory %s: %w", d.Path, err)
	}
	restore := d.restoreAdvice()
	// The format first, and leniently: this release does not know what else a
	// newer one wrote.
	var version struct {
		Format int `json:"format"`
	}
	if err := json.Unmarshal(data, &version); err != nil || version.Format < 1 {
		return false, embedded.DirError(d.Path, store.ErrDamaged, identityFile+" cannot be read", restore)
	}
	if version.Format > directoryFormat {
		return false, embedded.DirError(d.Path, store.ErrNewer, fmt.Sprintf("format %d, this release knows %d", version.Format, directoryFormat),
			"run the newer release or choose another directory; nothing was changed in it")
	}
	var id identity
	if err := json.Unmarshal(data, &id); err != nil || !validName(id.Node) || id.Shards < 0 || id.Shards > maxShards || id.Format != formatOf(id.Shards) {
		return false, embedded.DirError(d.Path, store.ErrDamaged, identityFile+" cannot be read", restore)
	}
	dec := json.NewDecoder(bytes.NewReader(data))
	dec.DisallowUnknownFields()
	if err := dec.Decode(&identity{}); err != nil {
		// This release would drop the unknown members when it writes the file.
		return false, embedded.DirError(d.Path, store.ErrNewer, fmt.Sprintf("%s: %v", identityFile, err), "run the newer release or choose another directory; nothing was changed in it")
	}
	d.id = id
	return true, nil
}

// restoreAdvice says what to do about a troupe.json that is of no use. The streams that are there say the number of shards.
func (d *directory) restoreAdvice() string {
	id := fmt.Sprintf(`{"format":%d,"node":"NAME"}`, plainFormat)
	if shards, _ := filepath.Glob(d.StreamDir("*" + events + "-[0-9]*")); len(shards) > 0 {
		id = fmt.Sprintf(`{"format":%d,"node":"NAME","shards":%d}`, formatOf(len(shards)), len(shards))
	}
	return fmt.Sprintf("restore the file from a backup or choose another directory, or keep what is stored and write a new one: "+
		`echo '%s' > '%s' with the name that this node had, and start again; nothing was changed in it`, id, d.PathOf(identityFile))
}

// checkEmpty refuses a directory that has no troupe.json but other files than
// earlyFiles.
func (d *directory) checkEmpty() error {
	entries, err := os.ReadDir(d.Path)
	if err != nil {
		return fmt.Errorf("cluster: data directory: %w", err)
	}
	for _, e := range entries {
		if !slices.Contains(earlyFiles, e.Name()) {
			return embedded.DirError(d.Path, ErrForeign, fmt.Sprintf("it has %s but no %s", e.Name(), identityFile),
				"choose an empty or a new directory; nothing was changed in it")
		}
	}
	return nil
}

// takeLock locks the directory for as long as the process lives.
func (d *directory) takeLock() error {
	f, err := os.OpenFile(d.PathOf(lockFile), os.O_RDWR|os.O_CREATE, 0o600)
	if err != nil {
		return fmt.Errorf("cluster: data directory: %w", err)
	}
	held, err := tryLock(f)
	for began := time.Now(); err == nil && !held && time.Since(began) < lockPatience(holderIn(f)); {
		time.Sleep(launchPoll)
		held, err = tryLock(f)
	}
	if err == nil && held {
		d.lock = f
		return nil
	}
	defer f.Close()
	if err != nil {
		return fmt.Errorf("cluster: lock data directory %s: %w", d.Path, err)
	}
	holder := "by another process"
	if pid := holderIn(f); pid != 0 {
		holder = fmt.Sprintf("by process %d", pid)
	}
	return embedded.DirError(d.Path, ErrLocked, holder, "stop that process or choose another directory")
}

const (
	launchTime = 10 * time.Second // how long a process may take from its start to its program
	deathTime  = 2 * time.Second  // how long a process may take from SIGKILL to its end
	launchPoll = 10 * time.Millisecond
)

// lockPatience returns how long to wait for the lock that holder has written itself into. One that has ended may have been
// about to start a program, which has the lock until it runs; one that is there may have been killed a moment ago.
func lockPatience(holder int) time.Duration {
	if isGone(holder) {
		return launchTime
	}
	return deathTime
}

// holderIn returns the process that has written itself into the file of the lock, 0 for none.
func holderIn(f *os.File) int {
	b, err := io.ReadAll(io.NewSectionReader(f, 0, 32))
	pid, bad := strconv.Atoi(strings.TrimSpace(string(b)))
	if err != nil || bad != nil {
		return 0
	}
	return pid
}

// prepareStore does what needs the lock: it reads the identity, checks the store, and
// writes our pid for others.
func (d *directory) prepareStore(node string, shards int, names func(shards int) []string) error {
	found, err := d.readIdentity()
	if err != nil {
		return err
	}
	changed := !found
	if !found {
		d.id = identity{Format: plainFormat, Node: cmp.Or(node, NewName()), Created: time.Now().UTC().Truncate(time.Second)}
	}
	if names != nil {
		if shards > 1 && d.id.Shards == 0 && len(d.id.Streams) == 0 && !d.Exists(d.PathOf(embedded.StoreDir)) { // No store was made here before.
			d.id.Shards, d.id.Format, changed = shards, formatOf(shards), true
		}
		if err := d.checkShards(names); err != nil {
			return err
		}
		if err := d.checkStore(names(d.id.shardCount())); err != nil {
			return err
		}
	}
	if changed {
		if err := d.saveIdentity(); err != nil {
			return err
		}
	}
	_ = os.Remove(d.PathOf(roomFile)) // left by a process that was killed while it looked for room
	return d.writePid(strconv.Itoa(os.Getpid()) + "\n")
}

// checkShards refuses a directory with streams that a store with its number of shards does not have: a troupe.json that was written
// by hand must not hide them.
func (d *directory) checkShards(names func(shards int) []string) error {
	mine := names(d.id.shardCount())
	for _, name := range append(names(1), names(maxShards)...) {
		if !slices.Contains(mine, name) && d.Exists(d.StreamDir(name)) {
			return embedded.DirError(d.Path, store.ErrDamaged, fmt.Sprintf("stream %s is there, and %s says %d shards", name, identityFile, d.id.shardCount()), d.restoreAdvice())
		}
	}
	return nil
}

// saveIdentity writes troupe.json so that a crash leaves the old or the new one.
func (d *directory) saveIdentity() error {
	data, err := json.MarshalIndent(d.id, "", "  ")
	if err == nil {
		err = embedded.WriteFile(d.PathOf(identityFile), append(data, '\n'))
	}
	if err != nil {
		return fmt.Errorf("cluster: data directory: %w", err)
	}
	return nil
}

// hasStreams records that the streams were created.
func (d *directory) hasStreams(names []string) error {
	all := slices.Clone(d.id.Streams)
	for _, name := range names {
		if !slices.Contains(all, name) {
			all = append(all, name)
		}
	}
	if len(all) == len(d.id.Streams) {
		return nil
	}
	d.id.Streams = all
	return d.saveIdentity()
}

func (d *directory) writePid(s string) error {
	err := d.lock.Truncate(0)
	if err == nil {
		_, err = d.lock.WriteAt([]byte(s), 0)
	}
	if err != nil {
		return fmt.Errorf("cluster: data directory: %w", err)
	}
	return nil
}

// close releases the lock. The lock file stays: without it two processes could
// hold locks on two files of the same name.
func (d *directory) close() error {
	_ = d.writePid("")
	unlockFile(d.lock)
	if err := d.lock.Close(); err != nil {
		return fmt.Errorf("cluster: data directory: %w", err)
	}
	return nil
}

// storePath makes the store's directory with the permissions we want.
func (d *directory) storePath() (string, error) {
	if err := os.MkdirAll(filepath.Join(d.Path, embedded.StoreDir), 0o700); err != nil {
		return "", fmt.Errorf("cluster: data directory: %w", err)
	}
	return d.Path, nil
}

// checkStore checks the store before the embedded server opens it, because the
// server drops what it cannot read. It checks everything first, and mends only
// once it can no longer refuse. names are the streams of this node in the order
// of kinds.
func (d *directory) checkStore(names []string) error {
	kept, err := d.ReadDescriptions()
	if err != nil {
		return err
	}
	var mend []func() error
	var have []string
	for _, name := range d.id.Streams {
		// Opening a directory voids its leases: this stream can have lost nothing
		// that matters.
		expendable := len(names) > 0 && name == names[0]
		fix, max, err := d.CheckStream(name, kept, expendable)
		if err != nil {
			return err
		}
		if fix != nil {
			mend = append(mend, fix)
		}
		if max >= 0 {
			have = append(have, name)
			d.reserved += max
		}
	}
	for _, name := range names {
		if fix := d.FixNewStream(name, kept); fix != nil && !slices.Contains(d.id.Streams, name) {
			mend = append(mend, fix)
		}
	}
	if len(have) != len(d.id.Streams) {
		// First, so that a start after one that fails here does not miss a stream
		// that is given up.
		d.id.Streams = have
		if err := d.saveIdentity(); err != nil {
			return err
		}
	}
	for _, fix := range mend {
		if err := fix(); err != nil {
			return fmt.Errorf("cluster: data directory: %w", err)
		}
	}
	return nil
}

// keepStreams makes streams that were created or changed durable, with a copy of their descriptions, and last records
// that they must exist.
func (d *directory) keepStreams(names []string) error {
	if err := d.KeepStreams(names); err != nil {
		return err
	}
	return d.hasStreams(names)
}
