package main

import (
	"bytes"
	"crypto/x509"
	"encoding/pem"
	"fmt"
	"io"
	"io/fs"
	"os"
	"path/filepath"
	"strings"
	"time"

	v1 "github.com/google/go-containerregistry/pkg/v1"
	"github.com/google/go-containerregistry/pkg/v1/empty"
	"github.com/google/go-containerregistry/pkg/v1/layout"
	"github.com/google/go-containerregistry/pkg/v1/mutate"
	"github.com/google/go-containerregistry/pkg/v1/tarball"
	"github.com/google/go-containerregistry/pkg/v1/types"
	"golang.org/x/crypto/x509roots/fallback/bundle"
)

// imageUser is the user, and the group, of the image: the one that other images without a shell use, too.
const imageUser = 65532

// imageEnv are the settings of the image. It listens on all addresses, as a container is reached from outside, and so it lets in
// nobody without a key unless other settings say who may call.
var imageEnv = []string{
	"PATH=/usr/local/bin",
	"TROUPE_LISTEN=0.0.0.0:8080", "TROUPE_DATA=/data", "TROUPE_API_KEYS=true",
}

// newImage makes the image for one processor: a layer with what every such image has, and one with the program. An OCI image has no
// health check, which is Docker's alone: docs/deploy.md says how to ask `troupe health`.
func newImage(src source, version string, p program, files tree) (v1.Image, error) {
	roots, err := authorities()
	if err != nil {
		return nil, err
	}
	user := fmt.Sprintf("troupe:x:%d:", imageUser)
	base := tree{
		"data":                              {mode: fs.ModeDir | 0o700, owner: imageUser},
		"etc/passwd":                        regular([]byte("root:x:0:0:root:/:/nonexistent\n" + user + fmt.Sprintf("%d:Troupe:/data:/nonexistent\n", imageUser))),
		"etc/group":                         regular([]byte("root:x:0:\n" + user + "\n")),
		"etc/ssl/certs/ca-certificates.crt": regular(roots),
	}
	own := tree{"usr/local/bin/troupe": files["troupe"]}
	for name, e := range files {
		if name != "troupe" {
			own["licenses/"+name] = e
		}
	}
	img := mutate.MediaType(mutate.ConfigMediaType(empty.Image, types.OCIConfigJSON), types.OCIManifestSchema1)
	for _, layer := range []struct {
		files tree
		what  string
	}{{base, "users, authorities and /data"}, {own, "troupe " + version}} {
		if img, err = appendLayer(img, layer.files, layer.what, src.time); err != nil {
			return nil, err
		}
	}
	config, err := img.ConfigFile()
	if err != nil {
		return nil, err
	}
	config = config.DeepCopy()
	config.OS, config.Architecture, config.Created = p.os, p.arch, v1.Time{Time: src.time}
	if p.arch == "arm64" {
		config.Variant = "v8"
	}
	config.Config = v1.Config{
		Entrypoint: []string{"/usr/local/bin/troupe"}, Cmd: []string{"serve"}, Env: imageEnv, User: fmt.Sprintf("%d:%d", imageUser, imageUser), WorkingDir: "/",
		ExposedPorts: map[string]struct{}{"8080/tcp": {}}, Volumes: map[string]struct{}{"/data": {}}, StopSignal: "SIGTERM", Labels: labels(src, version),
	}
	return mutate.ConfigFile(img, config)
}

// appendLayer adds a layer, whose bytes depend on its files and their time alone.
func appendLayer(img v1.Image, files tree, what string, at time.Time) (v1.Image, error) {
	var b bytes.Buffer
	if err := files.writeTar(&b, at); err != nil {
		return nil, err
	}
	open := func() (io.ReadCloser, error) { return io.NopCloser(bytes.NewReader(b.Bytes())), nil }
	layer, err := tarball.LayerFromOpener(open, tarball.WithMediaType(types.OCILayer), tarball.WithCompressionLevel(9), tarball.WithCompressedCaching)
	if err != nil {
		return nil, err
	}
	return mutate.Append(img, mutate.Addendum{Layer: layer, MediaType: types.OCILayer, History: v1.History{Created: v1.Time{Time: at}, CreatedBy: what}})
}

// labels say what the image is of, by the names that registries know.
func labels(src source, version string) map[string]string {
	const prefix, home = "org.opencontainers.image.", "https://github.com/troupe-run/troupe"
	return map[string]string{
		prefix + "title": "troupe", prefix + "description": "MCP server whose sessions, streams and calls survive restarts", prefix + "vendor": "The Troupe Authors",
		prefix + "licenses": "Apache-2.0", prefix + "url": home, prefix + "source": home, prefix + "documentation": home + "/blob/main/docs/deploy.md",
		prefix + "version": strings.TrimPrefix(version, "v"), prefix + "revision": src.commit, prefix + "created": src.time.Format(time.RFC3339),
	}
}

// authorities are the certificates that the image trusts, as PEM: those of Mozilla, from the module golang.org/x/crypto/x509roots, whose
// version go.sum fixes. The machine's own would be another list on each. Those that are distrusted from some day on are left out, as
// PEM cannot say from when.
func authorities() ([]byte, error) {
	var b bytes.Buffer
	b.WriteString("# The certificates of Mozilla's store (MPL-2.0), as golang.org/x/crypto/x509roots has them.\n")
	for root := range bundle.Roots() {
		if root.Constraint != nil {
			continue
		}
		c, err := x509.ParseCertificate(root.Certificate)
		if err != nil {
			return nil, err
		}
		_, _ = fmt.Fprintf(&b, "# %s\n", c.Subject)
		if err := pem.Encode(&b, &pem.Block{Type: "CERTIFICATE", Bytes: root.Certificate}); err != nil {
			return nil, err
		}
	}
	return b.Bytes(), nil
}

// writeImages writes the images as a layout with one index, as a file of it, and the digest of the index.
func (a *artefacts) writeImages() error {
	index := mutate.IndexMediaType(empty.Index, types.OCIImageIndex)
	for _, img := range a.images {
		config, err := img.ConfigFile()
		if err != nil {
			return err
		}
		index = mutate.AppendManifests(index, mutate.IndexAddendum{Add: img, Descriptor: v1.Descriptor{Platform: config.Platform()}})
	}
	annotated, ok := mutate.Annotations(index, labels(a.src, a.version)).(v1.ImageIndex)
	if !ok {
		return fmt.Errorf("an index with annotations is none")
	}
	// Tools find the image by this name where they read a layout that is one file.
	all := mutate.AppendManifests(mutate.IndexMediaType(empty.Index, types.OCIImageIndex), mutate.IndexAddendum{
		Add: annotated, Descriptor: v1.Descriptor{Annotations: map[string]string{
			"org.opencontainers.image.ref.name": a.number(), "io.containerd.image.name": "ghcr.io/troupe-run/troupe:" + a.number(),
		}},
	})
	dir := filepath.Join(a.out, "image")
	if _, err := layout.Write(dir, all); err != nil {
		return err
	}
	digest, err := annotated.Digest()
	if err != nil {
		return err
	}
	if err := a.write("image.digest", []byte(digest.String()+"\n")); err != nil {
		return err
	}
	files := tree{}
	err = filepath.WalkDir(dir, func(name string, f fs.DirEntry, err error) error {
		if err != nil || !f.Type().IsRegular() {
			return err
		}
		data, err := os.ReadFile(name)
		if err != nil {
			return err
		}
		within, err := filepath.Rel(dir, name)
		files[filepath.ToSlash(within)] = regular(data)
		return err
	})
	if err != nil {
		return err
	}
	var b bytes.Buffer
	if err := files.writeTar(&b, a.src.time); err != nil {
		return err
	}
	return a.write(fmt.Sprintf("troupe_%s_image.tar", a.number()), b.Bytes())
}
