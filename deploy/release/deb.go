package main

import (
	"cmp"
	"errors"
	"fmt"
	"io"
	"os"
	"path"
	"path/filepath"
	"strings"

	"github.com/goreleaser/nfpm/v2"
	"github.com/goreleaser/nfpm/v2/deb"
	"github.com/goreleaser/nfpm/v2/files"
)

// debian is a package for Debian and what is made of it.
type debian struct {
	version string // such as v0.1.0
	arch    string
	src     source
	files   tree // the program, LICENSE, NOTICE and licences
	units   tree
	// compression is gzip, which any dpkg knows, unless a test is in a hurry.
	compression string
}

// copyright is the file of that name, which Debian wants.
const copyright = `Format: https://www.debian.org/doc/packaging-manuals/copyright-format/1.0/
Upstream-Name: troupe
Source: https://github.com/troupe-run/troupe
Comment: The program is linked with the modules in the directory licences beside this file, each under its own licence.

Files: *
Copyright: The Troupe Authors
License: Apache-2.0
 On Debian systems the text of the licence is in /usr/share/common-licenses/Apache-2.0.
`

// unitNames are the units of systemd that are installed.
var unitNames = []string{"troupe.service", "troupe.socket", "troupe-keeper.service"}

// info is the package without its contents. Debian takes what precedes a release, such as a pseudo-version, for older by a ~.
func (d debian) info() *nfpm.Info {
	return nfpm.WithDefaults(&nfpm.Info{
		Name: "troupe", Arch: d.arch, Platform: "linux", Version: d.version, Section: "net", Priority: "optional",
		Maintainer: "The Troupe Authors", Vendor: "Troupe", Homepage: "https://github.com/troupe-run/troupe", License: "Apache-2.0",
		Description: "MCP server whose sessions, streams and calls survive restarts\n" +
			"Troupe serves tools over the Model Context Protocol, and keeps the sessions, event\nstreams and running calls of its clients through a deploy or a kill -9 of the server.",
		MTime: d.src.time, DisableGlobbing: true,
		Overridables: nfpm.Overridables{Depends: []string{"passwd"}, Recommends: []string{"ca-certificates"}, Deb: nfpm.Deb{Compression: cmp.Or(d.compression, "gzip")}},
	})
}

// fileName is that of Debian for a release. For what precedes one Debian's has a ~, of which GitHub makes a dot.
func (d debian) fileName() string {
	return fmt.Sprintf("troupe_%s_%s.deb", strings.TrimPrefix(d.version, "v"), d.arch)
}

// write writes the package. What is in it lies in a directory of scratch meanwhile.
func (d debian) write(to io.Writer, scratch string) error {
	dir, err := os.MkdirTemp(scratch, "deb-")
	if err != nil {
		return err
	}
	contents := tree{
		"usr/bin/troupe":                 d.files["troupe"],
		"etc/troupe/troupe.yaml":         {data: d.units["troupe.yaml"].data, mode: 0o640}, // it may get secrets
		"usr/share/doc/troupe/copyright": regular([]byte(copyright)),
	}
	for _, unit := range unitNames {
		contents[path.Join("usr/lib/systemd/system", unit)] = d.units[unit]
	}
	for name, e := range d.files {
		if name != "troupe" && name != "LICENSE" {
			contents[path.Join("usr/share/doc/troupe", name)] = e
		}
	}
	info := d.info()
	for name, e := range contents {
		from := filepath.Join(dir, "data", filepath.FromSlash(name))
		if err := errors.Join(os.MkdirAll(filepath.Dir(from), 0o755), os.WriteFile(from, e.data, 0o600)); err != nil {
			return err
		}
		kind := files.TypeFile
		if strings.HasPrefix(name, "etc/") {
			kind = files.TypeConfig
		}
		info.Contents = append(info.Contents, &files.Content{
			Source: from, Destination: "/" + name, Type: kind, FileInfo: &files.ContentFileInfo{Mode: e.mode, MTime: d.src.time},
		})
	}
	script := func(name string) string { return filepath.Join(d.src.dir, "deploy", "release", "debian", name) }
	info.Scripts = nfpm.Scripts{PostInstall: script("postinst"), PreRemove: script("prerm"), PostRemove: script("postrm")}
	if err := deb.Default.Package(info, to); err != nil {
		return fmt.Errorf("nfpm: %w", err)
	}
	return nil
}
