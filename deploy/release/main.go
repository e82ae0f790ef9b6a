// Command release makes everything that a release of Troupe publishes, out of one commit, on one machine, without a container
// daemon:
//
//   - programs for linux, darwin and windows on amd64 and arm64, each with its licences in an archive
//   - for each of them a bill of materials (CycloneDX)
//   - packages for Debian
//   - an image for amd64 and arm64, as an OCI layout and as one file
//   - the notes of the release, and SHA256SUMS
//
// The same commit, version and release of Go make the same bytes, in whichever directory and on whichever machine. What is built is
// a clone of the commit, so that nothing of the checkout gets in that is in no commit.
//
//	go -C deploy run ./release --out ../out
//	go -C deploy run ./release --help
//
// docs/design/026-releases.md says why it is as it is.
package main

import (
	"context"
	"errors"
	"flag"
	"fmt"
	"io"
	"os"
	"os/signal"
	"path/filepath"
	"strings"
	"syscall"
)

const help = `Makes what a release publishes, out of the commit that is checked out.

  go -C deploy run ./release --out ../out
  go -C deploy run ./release --out ../out --version v0.1.0
  go -C deploy run ./release --out ../out --only linux/amd64

With -C a relative DIR is one of deploy/: ../out is beside it. Six programs take minutes each the first time, less than one later.
DIR has then, with a version such as 0.1.0:

  troupe_0.1.0_linux_amd64.tar.gz ...   a program, LICENSE, NOTICE and the licences of all it is linked with
  troupe_0.1.0_linux_amd64.cdx.json ... the modules of that program (CycloneDX 1.6)
  troupe_0.1.0_amd64.deb, ..._arm64.deb packages with a systemd unit and a user
  troupe_0.1.0_image.tar                the image, for podman load, skopeo and Docker
  image/                                the same as an OCI layout, for crane push
  image.digest                          the digest of the image's index
  notes.md                              what CHANGELOG.md says of the version
  SHA256SUMS                            of all files beside it

Two runs are equal: all times are that of the commit, or SOURCE_DATE_EPOCH. Look with: sha256sum */SHA256SUMS

Flags:
`

func main() {
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt, syscall.SIGTERM)
	defer stop()
	err := run(ctx, os.Args[1:], os.Stdout, os.Stderr)
	switch {
	case err == nil:
	case errors.Is(err, errUsage):
		fmt.Fprintln(os.Stderr, "release: "+err.Error()+"; --help tells more")
		os.Exit(2)
	default:
		fmt.Fprintln(os.Stderr, "release: "+err.Error())
		os.Exit(1)
	}
}

// errUsage says that the command line is wrong.
var errUsage = errors.New("the command line is wrong")

// order is what is to be made.
type order struct {
	source    string // a checkout
	out       string // an empty directory
	version   string // such as v0.1.0, or empty for what Go makes of the commit
	platforms []platform
	log       progress
}

func run(ctx context.Context, args []string, stdout, log io.Writer) error {
	flags := flag.NewFlagSet("release", flag.ContinueOnError)
	flags.SetOutput(io.Discard) // an error is told once, by main
	o := order{log: progress{log}}
	var only string
	flags.StringVar(&o.out, "out", "", "`directory` for everything; it is made, or is empty")
	flags.StringVar(&o.version, "version", "", "`version` of the commit, such as v0.1.0 (its tag, or a pseudo-version of Go's)")
	flags.StringVar(&only, "only", "", "`platforms` to build, with commas between them (all: "+strings.Join(names(allPlatforms), ",")+")")
	switch err := flags.Parse(args); {
	case errors.Is(err, flag.ErrHelp):
		_, err := fmt.Fprint(stdout, help)
		flags.SetOutput(stdout)
		flags.PrintDefaults()
		return err
	case err != nil:
		return fmt.Errorf("%w: %w", errUsage, err)
	}
	if flags.NArg() > 0 {
		return fmt.Errorf("%w: %q is no flag", errUsage, flags.Arg(0))
	}
	if o.out == "" {
		return fmt.Errorf("%w: --out names no directory", errUsage)
	}
	var err error
	if o.platforms, err = parsePlatforms(only); err != nil {
		return err
	}
	if o.out, err = filepath.Abs(o.out); err != nil {
		return err
	}
	if o.source, err = output(ctx, ".", nil, "git", "rev-parse", "--show-toplevel"); err != nil {
		return fmt.Errorf("this is no checkout of Troupe: %w", err)
	}
	return o.make(ctx)
}

// make makes everything, and leaves a directory without SHA256SUMS if it fails.
func (o order) make(ctx context.Context) error {
	if err := makeEmpty(o.out); err != nil {
		return err
	}
	scratch, err := os.MkdirTemp("", "troupe-release-")
	if err != nil {
		return err
	}
	defer func() { _ = os.RemoveAll(scratch) }()
	src, err := o.clone(ctx, filepath.Join(scratch, "src"))
	if err != nil {
		return err
	}
	programs, err := o.build(ctx, src, filepath.Join(scratch, "bin"))
	if err != nil {
		return err
	}
	release := artefacts{out: o.out, scratch: scratch, src: src, version: programs[0].version, log: o.log}
	for _, p := range programs {
		if err := release.add(ctx, p); err != nil {
			return fmt.Errorf("%s: %w", p.platform, err)
		}
	}
	if err := release.finish(); err != nil {
		return err
	}
	o.log.say("%s of commit %s is in %s", release.version, src.commit, o.out)
	return nil
}

// makeEmpty makes a directory, which must have nothing in it: files of another run would be published with those of this one.
func makeEmpty(dir string) error {
	if err := os.MkdirAll(dir, 0o755); err != nil {
		return err
	}
	there, err := os.ReadDir(dir)
	if err != nil {
		return err
	}
	if len(there) > 0 {
		return fmt.Errorf("%w: %s has files already, such as %s: name an empty directory", errUsage, dir, there[0].Name())
	}
	return nil
}
