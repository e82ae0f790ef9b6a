package main

import (
	"bytes"
	"context"
	"crypto/sha256"
	"encoding/hex"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"strings"
	"time"

	v1 "github.com/google/go-containerregistry/pkg/v1"
	"golang.org/x/mod/module"
)

// artefacts are what a release publishes, in one directory.
type artefacts struct {
	out, scratch string
	src          source
	version      string // such as v0.1.0
	log          progress
	images       []v1.Image
}

// number is the version without its v, as names of files and Debian have it.
func (a *artefacts) number() string { return strings.TrimPrefix(a.version, "v") }

// add makes what is made of one program: its archive, its bill of materials and, for Linux, its package and its image.
func (a *artefacts) add(ctx context.Context, p program) error {
	l, err := collectLicences(ctx, a.src, p)
	if err != nil {
		return err
	}
	binary, err := os.ReadFile(p.path)
	if err != nil {
		return err
	}
	name := fmt.Sprintf("troupe_%s_%s_%s", a.number(), p.os, p.arch)
	bill, err := billOfMaterials(p, l, binary, a.src.time)
	if err != nil {
		return err
	}
	if err := a.write(name+".cdx.json", bill); err != nil {
		return err
	}
	texts, err := readSource(a.src, "LICENSE", "NOTICE", "deploy/systemd/troupe.service", "deploy/systemd/troupe.socket", "deploy/systemd/troupe.yaml", "deploy/systemd/troupe-keeper.service")
	if err != nil {
		return err
	}
	files := tree{p.name(): executable(binary), "LICENSE": regular(texts[0]), "NOTICE": regular(texts[1])}
	files.addAll("licences", l.texts)
	if p.os != "linux" {
		return a.pack(name, p.os == "windows", files)
	}

	units := tree{"troupe.service": regular(texts[2]), "troupe.socket": regular(texts[3]), "troupe.yaml": regular(texts[4]), "troupe-keeper.service": regular(texts[5])}
	archive := tree{}
	archive.addAll("", files)
	archive.addAll("systemd", units)
	if err := a.pack(name, false, archive); err != nil {
		return err
	}
	deb := debian{version: a.version, arch: p.arch, src: a.src, files: files, units: units}
	err = a.writeBy(deb.fileName(), func(w io.Writer, _ time.Time) error { return deb.write(w, a.scratch) })
	if err != nil {
		return err
	}
	return a.log.during("image for "+p.String(), func() string { return "compressing" }, func() error {
		img, err := newImage(a.src, a.version, p, files)
		a.images = append(a.images, img)
		return err
	})
}

// pack writes an archive, in which everything is below a directory of its name.
func (a *artefacts) pack(name string, zipped bool, files tree) error {
	below := tree{}
	below.addAll(name, files)
	if zipped {
		return a.writeBy(name+".zip", below.writeZip)
	}
	return a.writeBy(name+".tar.gz", below.writeTarGz)
}

// finish makes what is made of all programs. The checksums come last: without them a release is none.
func (a *artefacts) finish() error {
	if len(a.images) > 0 {
		if err := a.log.during("image", func() string { return "writing" }, a.writeImages); err != nil {
			return fmt.Errorf("image: %w", err)
		}
	}
	changelog, err := readSource(a.src, "CHANGELOG.md")
	if err != nil {
		return err
	}
	ref := a.version
	if module.IsPseudoVersion(ref) {
		ref = a.src.commit
	}
	notes, err := notesOf(string(changelog[0]), a.number(), ref)
	if err != nil {
		return err
	}
	if err := a.write("notes.md", []byte(notes)); err != nil {
		return err
	}
	sums, err := checksums(a.out)
	if err != nil {
		return err
	}
	return a.write("SHA256SUMS", sums)
}

// writeBy writes a file of the release by a function that gets the time of everything in it.
func (a *artefacts) writeBy(name string, write func(io.Writer, time.Time) error) error {
	return a.log.during(name, func() string { return "compressing" }, func() error {
		var b bytes.Buffer
		if err := write(&b, a.src.time); err != nil {
			return fmt.Errorf("%s: %w", name, err)
		}
		return a.write(name, b.Bytes())
	})
}

func (a *artefacts) write(name string, data []byte) error {
	return os.WriteFile(filepath.Join(a.out, name), data, 0o644)
}

// checksums are those of the files of a directory, by name, as sha256sum -c reads them. The files of directories in it have digests
// of their own.
func checksums(dir string) ([]byte, error) {
	files, err := os.ReadDir(dir) // in order
	if err != nil {
		return nil, err
	}
	var sums bytes.Buffer
	for _, f := range files {
		if f.IsDir() {
			continue
		}
		data, err := os.ReadFile(filepath.Join(dir, f.Name()))
		if err != nil {
			return nil, err
		}
		sum := sha256.Sum256(data)
		_, _ = fmt.Fprintf(&sums, "%s  %s\n", hex.EncodeToString(sum[:]), f.Name())
	}
	return sums.Bytes(), nil
}
