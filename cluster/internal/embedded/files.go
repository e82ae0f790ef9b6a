package embedded

import (
	"encoding/json"
	"errors"
	"fmt"
	"io/fs"
	"maps"
	"os"
	"path/filepath"
	"strings"
	"time"

	"github.com/troupe-run/troupe/internal/store"
)

const (
	// DescriptionsFile keeps a copy of the streams' descriptions. The embedded
	// server replaces a description in two steps and flushes neither: a kill can
	// leave one that does not fit its checksum, and a power cut an empty one.
	DescriptionsFile   = "streams.json"
	descriptionsFormat = 1

	// LostPrefix begins the name to which an operator moves a stream's directory
	// to go on without its content.
	LostPrefix = "lost-"

	// StoreDir is the directory of the store, as the embedded server names it.
	StoreDir = "jetstream"
)

// DirError gives every refusal the same shape: what, where, and what to do.
func DirError(path string, err error, what, advice string) error {
	if what != "" {
		what = " (" + what + ")"
	}
	return fmt.Errorf("cluster: data directory %s: %w%s: %s", path, err, what, advice)
}

// Files knows what the embedded server has in the data directory at Path, and what is kept beside that.
type Files struct{ Path string }

// PathOf is the path of a file in the directory.
func (d Files) PathOf(name string) string { return filepath.Join(d.Path, name) }

// A Description is what the embedded server keeps of a stream beside its messages.
type Description struct {
	Inf string `json:"inf"` // the content of meta.inf
	Sum string `json:"sum"` // the content of meta.sum
}

// StreamDir is the directory of a stream.
func (d Files) StreamDir(name string) string {
	return d.PathOf(filepath.Join(StoreDir, "$G", "streams", name))
}

// Exists reports whether there is something at path.
func (d Files) Exists(path string) bool {
	_, err := os.Lstat(path)
	return err == nil
}

// DescribeLoss names what is gone with a stream.
func DescribeLoss(name string) string {
	switch base := name[strings.LastIndexByte(name, '_')+1:]; { // behind the prefix
	case base == "events":
		return "the calls that were running and the events that clients could still fetch"
	case strings.HasPrefix(base, "events"):
		return "a part of the calls that were running and of the events that clients could still fetch"
	case base == "sessions":
		return "all sessions"
	case base == "keys":
		return "the keys that calls waiting for input and list cursors were sealed with, those of issuers of access tokens, and all API keys"
	}
	return "what it held"
}

// DamagedStream returns the error that names what is lost and how to go on.
func (d Files) DamagedStream(name, what string) error {
	aside, lost := d.StreamDir(name), d.PathOf(LostPrefix+name)
	move := fmt.Sprintf("mv '%s' '%s'", aside, lost)
	if !d.Exists(aside) {
		move = fmt.Sprintf("mkdir '%s'", lost)
	}
	return DirError(d.Path, store.ErrDamaged, what+"; lost with it: "+DescribeLoss(name), fmt.Sprintf(
		"restore it from a backup, choose another directory, or go on without what is lost: %s, and start again; nothing was changed in it", move))
}

// DamagedStore is DamagedStream for all streams together.
func (d Files) DamagedStore(what string) error {
	return DirError(d.Path, store.ErrDamaged, what+"; lost with it: all sessions, running calls and their events, and the keys", fmt.Sprintf(
		"restore it from a backup, choose another directory, or go on without what is lost: mv '%s' '%s', and start again", d.PathOf(StoreDir), d.PathOf(LostPrefix+StoreDir)))
}

// ReadDescriptions reads the copied descriptions. A missing file is no error: older releases
// write none.
func (d Files) ReadDescriptions() (map[string]Description, error) {
	data, err := os.ReadFile(d.PathOf(DescriptionsFile))
	if errors.Is(err, fs.ErrNotExist) {
		return nil, nil
	}
	if err != nil {
		return nil, fmt.Errorf("cluster: data directory: %w", err)
	}
	var f struct {
		Format  int                    `json:"format"`
		Streams map[string]Description `json:"streams"`
	}
	var version struct {
		Format int `json:"format"`
	}
	if json.Unmarshal(data, &version) == nil && version.Format > descriptionsFormat {
		return nil, DirError(d.Path, store.ErrNewer, fmt.Sprintf("%s has format %d, this release knows %d", DescriptionsFile, version.Format, descriptionsFormat),
			"run the newer release or choose another directory; nothing was changed in it")
	}
	if json.Unmarshal(data, &f) != nil || f.Format < 1 {
		return nil, nil // A second copy that cannot be read is none; the first may be whole.
	}
	return f.Streams, nil
}

// readDescription reads a stream's description from the disk. It returns false if the
// embedded server could not use it.
func (d Files) readDescription(name string) (got Description, maxBytes int64, ok bool) {
	inf, err := os.ReadFile(filepath.Join(d.StreamDir(name), "meta.inf"))
	if err != nil {
		return got, 0, false
	}
	sum, err := os.ReadFile(filepath.Join(d.StreamDir(name), "meta.sum"))
	if err != nil {
		return got, 0, false
	}
	got = Description{string(inf), string(sum)}
	maxBytes, ok = got.streamLimit(name)
	return got, maxBytes, ok
}

// streamLimit reports whether c can be the description of stream name, and its limit.
func (c Description) streamLimit(name string) (maxBytes int64, ok bool) {
	var inf struct {
		Name     string `json:"name"`
		MaxBytes int64  `json:"max_bytes"`
	}
	if json.Unmarshal([]byte(c.Inf), &inf) != nil || inf.Name != name || len(c.Sum) != 16 {
		return 0, false
	}
	return inf.MaxBytes, true
}

// CheckStream checks one stream that must exist. It returns what must be done
// before the server may open it, and its limit; a negative limit says that the
// stream is given up.
func (d Files) CheckStream(name string, kept map[string]Description, expendable bool) (fix func() error, maxBytes int64, err error) {
	dir, lost := d.StreamDir(name), d.PathOf(LostPrefix+name)
	if !d.Exists(dir) {
		whole := d.PathOf(LostPrefix + StoreDir)
		switch {
		case d.Exists(lost):
			// The next loss must then be accepted anew.
			return func() error { return setAside(lost) }, -1, nil
		case d.Exists(whole) && !d.Exists(d.PathOf(StoreDir)):
			return func() error { return setAside(whole) }, -1, nil
		case expendable:
			return nil, -1, nil
		}
		return nil, 0, d.DamagedStream(name, "stream "+name+" is not there")
	}
	if _, err := os.ReadDir(dir); errors.Is(err, fs.ErrPermission) {
		return nil, 0, fmt.Errorf("cluster: data directory: %w", err)
	}
	got, maxBytes, ok := d.readDescription(name)
	if copy := kept[name].orNil(name); copy != nil && *copy != got {
		maxBytes, ok = copy.streamLimit(name)
		fix = func() error { return copy.writeTo(dir) }
	}
	if ok && d.hasMessages(dir) {
		return fix, max(maxBytes, 0), nil
	}
	switch {
	case expendable:
		return func() error { return os.RemoveAll(dir) }, -1, nil
	case !ok:
		return nil, 0, d.DamagedStream(name, "the description of stream "+name+" cannot be read")
	}
	return nil, 0, d.DamagedStream(name, "no messages of stream "+name)
}

// FixNewStream returns what must be done about a stream whose creation was cut short, or nil. Such a stream holds nothing:
// nothing is stored before the identity lists the streams.
func (d Files) FixNewStream(name string, kept map[string]Description) (fix func() error) {
	dir := d.StreamDir(name)
	if _, _, ok := d.readDescription(name); ok || !d.Exists(dir) {
		return nil
	}
	if copy := kept[name].orNil(name); copy != nil {
		return func() error { return copy.writeTo(dir) }
	}
	return func() error { return os.RemoveAll(dir) }
}

// KeepStreams makes streams that were created or changed durable, and then keeps a copy of their descriptions.
func (d Files) KeepStreams(names []string) error {
	kept, err := d.ReadDescriptions()
	if err != nil {
		return err
	}
	next := maps.Clone(kept)
	if next == nil {
		next = map[string]Description{}
	}
	var changed []string // paths to flush, the innermost first
	for _, name := range names {
		got, _, ok := d.readDescription(name)
		if !ok {
			return fmt.Errorf("cluster: data directory %s: the description of stream %s cannot be read after the start", d.Path, name)
		}
		if next[name] == got {
			continue
		}
		next[name] = got
		dir := d.StreamDir(name)
		changed = append(changed, filepath.Join(dir, "meta.inf"), filepath.Join(dir, "meta.sum"), filepath.Join(dir, "msgs"), dir)
	}
	if maps.Equal(kept, next) {
		return nil
	}
	for _, path := range append(changed, d.StreamDir(""), d.PathOf(filepath.Join(StoreDir, "$G")), d.PathOf(StoreDir), d.Path) {
		if err := syncPath(path); err != nil {
			return fmt.Errorf("cluster: data directory: %w", err)
		}
	}
	data, err := json.MarshalIndent(struct {
		Format  int                    `json:"format"`
		Streams map[string]Description `json:"streams"`
	}{descriptionsFormat, next}, "", "  ")
	if err != nil {
		return err
	}
	if err := WriteFile(d.PathOf(DescriptionsFile), append(data, '\n')); err != nil {
		return fmt.Errorf("cluster: data directory: %w", err)
	}
	return nil
}

// orNil returns the Description if it is one of the stream, or else nil.
func (c Description) orNil(name string) *Description {
	if _, ok := c.streamLimit(name); !ok {
		return nil
	}
	return &c
}

// hasMessages reports whether a stream's messages are there, or lie where an
// interrupted purge left them: the server finishes the purge.
func (d Files) hasMessages(dir string) bool {
	for _, name := range []string{"msgs", "__new_msgs__"} {
		if st, err := os.Stat(filepath.Join(dir, name)); err == nil && st.IsDir() {
			return true
		}
	}
	return false
}

// setAside renames a directory that was given up, so that its name is free again.
func setAside(path string) error {
	err := os.Rename(path, path+"-"+time.Now().UTC().Format("20060102T150405.000000000"))
	if errors.Is(err, fs.ErrNotExist) {
		return nil // Another stream was given up with the same directory.
	}
	return err
}

// writeTo puts the description in place, durably.
func (c *Description) writeTo(dir string) error {
	if err := WriteFile(filepath.Join(dir, "meta.inf"), []byte(c.Inf)); err != nil {
		return err
	}
	return WriteFile(filepath.Join(dir, "meta.sum"), []byte(c.Sum))
}

// WriteFile replaces a file so that a crash or a power cut leaves the old or
// the new one.
func WriteFile(path string, data []byte) error {
	tmp := path + ".tmp"
	f, err := os.OpenFile(tmp, os.O_WRONLY|os.O_CREATE|os.O_TRUNC, 0o600)
	if err != nil {
		return err
	}
	_, err = f.Write(data)
	if err == nil {
		err = f.Sync()
	}
	if closeErr := f.Close(); err == nil {
		err = closeErr
	}
	if err == nil {
		err = os.Rename(tmp, path)
	}
	if err != nil {
		_ = os.Remove(tmp)
		return err
	}
	return syncPath(filepath.Dir(path))
}

// syncPath flushes a file or a directory. Not every file system can flush a
// directory; those keep its entries with the file.
func syncPath(path string) error {
	f, err := os.Open(path)
	if err != nil {
		return err
	}
	defer f.Close()
	if err := f.Sync(); err != nil {
		if st, statErr := f.Stat(); statErr == nil && st.IsDir() {
			return nil
		}
		return err
	}
	return nil
}

// Blocks are the files with the messages of each stream, by their paths, as they were before the server opened them. A stream always has one.
//
// The server reads them when it starts after a kill. Where it cannot read on, because a bit has changed or a write was cut off, it cuts the file off there,
// and says nothing. Files that it writes anew, because most of their messages have expired, replace the old ones by a rename.
type Blocks map[string]map[string]fs.FileInfo

// ListBlocks finds those of the streams that must be there.
func (d Files) ListBlocks(streams []string) Blocks {
	all := make(Blocks)
	for _, stream := range streams {
		dir := filepath.Join(d.StreamDir(stream), "msgs")
		entries, err := os.ReadDir(dir)
		if err != nil { // The server finishes a purge that was cut off, or fails.
			continue
		}
		all[stream] = make(map[string]fs.FileInfo)
		for _, e := range entries {
			if st, err := e.Info(); err == nil && strings.HasSuffix(e.Name(), ".blk") {
				all[stream][filepath.Join(dir, e.Name())] = st
			}
		}
	}
	return all
}

// ForgetIndexes removes the server's index of each stream of which a file ends in zeros. A system that is killed in the middle of a write, or loses its power, may leave them
// behind what was written. The server knows by the last eight bytes of the newest file whether the index that it wrote when it ended is still true; those of an empty file
// are zeros there, so that it would take what came since for nothing. Without an index it reads the files.
func (b Blocks) ForgetIndexes() error {
	for _, files := range b {
		for path, st := range files {
			zeros, err := endsInZeros(path, st.Size())
			if err == nil && zeros {
				err = os.Remove(filepath.Join(filepath.Dir(path), "index.db"))
			}
			if err != nil && !errors.Is(err, fs.ErrNotExist) {
				return fmt.Errorf("cluster: data directory: %w", err)
			}
		}
	}
	return nil
}

func endsInZeros(path string, size int64) (bool, error) {
	var end, zeros [8]byte
	if size < int64(len(end)) {
		return false, nil
	}
	f, err := os.Open(path)
	if err != nil {
		return false, err
	}
	defer f.Close()
	_, err = f.ReadAt(end[:], size-int64(len(end)))
	return end == zeros, err
}
