package cluster

import (
	"io/fs"
	"os"
	"path/filepath"
	"strings"
)

// blocks are the files with the messages of each stream, by their paths, as they were before the server opened them. A stream always has one.
//
// The server reads them when it starts after a kill. Where it cannot read on, because a bit has changed or a write was cut off, it cuts the file off there,
// and says nothing. Files that it writes anew, because most of their messages have expired, replace the old ones by a rename.
type blocks map[string]map[string]fs.FileInfo

// blocks finds those of the streams that must be there.
func (d *directory) blocks() blocks {
	all := make(blocks)
	for _, stream := range d.id.Streams {
		dir := filepath.Join(d.streamDir(stream), "msgs")
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

// checkBlocks logs and counts what the server could not read of the files that were there before it started.
func (n *Node) checkBlocks(before blocks) {
	for stream, files := range before {
		if len(files) == 0 {
			n.counters.unreadable.Add(1)
			n.log.Error("a stream of the store has no file with messages: what it held is lost", "stream", stream, "lost", loses(stream))
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
