package main

import (
	"archive/tar"
	"archive/zip"
	"compress/gzip"
	"fmt"
	"io"
	"io/fs"
	"maps"
	"path"
	"slices"
	"time"
)

// tree is what an archive, a package or a layer of an image has, by slash-separated path, which begins with no slash. Directories on
// the way to a file need no entry: they have mode 0755 and belong to root.
type tree map[string]entry

// entry is a file, or a directory if mode says so.
type entry struct {
	data  []byte
	mode  fs.FileMode
	owner int // its user, and its group
}

func regular(data []byte) entry { return entry{data: data, mode: 0o644} }

func executable(data []byte) entry { return entry{data: data, mode: 0o755} }

// addAll adds the entries of another tree below a path.
func (t tree) addAll(below string, others tree) {
	for name, e := range others {
		t[path.Join(below, name)] = e
	}
}

// whole is t with the directories that its files are in.
func (t tree) whole() tree {
	w := maps.Clone(t)
	for name := range t {
		for dir := path.Dir(name); dir != "."; dir = path.Dir(dir) {
			if _, there := w[dir]; !there {
				w[dir] = entry{mode: fs.ModeDir | 0o755}
			}
		}
	}
	return w
}

// writeTar writes the tree in the order of its paths, all of one time, so that equal trees are equal bytes.
func (t tree) writeTar(to io.Writer, at time.Time) error {
	w := tar.NewWriter(to)
	t = t.whole()
	for _, name := range slices.Sorted(maps.Keys(t)) {
		e := t[name]
		h := &tar.Header{
			Typeflag: tar.TypeReg, Name: name, Size: int64(len(e.data)), Mode: int64(e.mode.Perm()), Uid: e.owner, Gid: e.owner,
			ModTime: at, Format: tar.FormatPAX,
		}
		if e.mode.IsDir() {
			h.Typeflag, h.Name = tar.TypeDir, name+"/"
		}
		if err := w.WriteHeader(h); err != nil {
			return fmt.Errorf("%s: %w", name, err)
		}
		if _, err := w.Write(e.data); err != nil {
			return fmt.Errorf("%s: %w", name, err)
		}
	}
	return w.Close()
}

// writeTarGz is writeTar, compressed. The header of gzip has neither name nor time.
func (t tree) writeTarGz(to io.Writer, at time.Time) error {
	w, err := gzip.NewWriterLevel(to, gzip.BestCompression)
	if err != nil {
		return err
	}
	if err := t.writeTar(w, at); err != nil {
		return err
	}
	return w.Close()
}

// writeZip writes the files of the tree in the order of their paths, all of one time.
func (t tree) writeZip(to io.Writer, at time.Time) error {
	w := zip.NewWriter(to)
	for _, name := range slices.Sorted(maps.Keys(t)) {
		e := t[name]
		if e.mode.IsDir() {
			continue
		}
		h := &zip.FileHeader{Name: name, Method: zip.Deflate, Modified: at}
		h.SetMode(e.mode)
		f, err := w.CreateHeader(h)
		if err != nil {
			return fmt.Errorf("%s: %w", name, err)
		}
		if _, err := f.Write(e.data); err != nil {
			return fmt.Errorf("%s: %w", name, err)
		}
	}
	return w.Close()
}
