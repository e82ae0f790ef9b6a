package main

import (
	"context"
	"debug/buildinfo"
	"fmt"
	"path/filepath"
	"runtime/debug"
	"slices"
	"strings"
)

// platform is an operating system and a processor, by Go's names.
type platform struct{ os, arch string }

// allPlatforms are those of a release.
var allPlatforms = []platform{
	{"linux", "amd64"}, {"linux", "arm64"}, {"darwin", "amd64"}, {"darwin", "arm64"}, {"windows", "amd64"}, {"windows", "arm64"},
}

func (p platform) String() string { return p.os + "/" + p.arch }

func names(platforms []platform) (all []string) {
	for _, p := range platforms {
		all = append(all, p.String())
	}
	return all
}

// parsePlatforms reads what --only says, in the order of allPlatforms; nothing means all.
func parsePlatforms(only string) (wanted []platform, err error) {
	if only == "" {
		return allPlatforms, nil
	}
	asked := strings.Split(only, ",")
	for _, name := range asked {
		if !slices.Contains(names(allPlatforms), name) {
			return nil, fmt.Errorf("%w: %q is no platform of a release: they are %s", errUsage, name, strings.Join(names(allPlatforms), ", "))
		}
	}
	for _, p := range allPlatforms {
		if slices.Contains(asked, p.String()) {
			wanted = append(wanted, p)
		}
	}
	return wanted, nil
}

// program is a built program.
type program struct {
	platform
	path    string
	version string // such as v0.1.0
	info    *debug.BuildInfo
}

// name is that of the file.
func (p program) name() string {
	if p.os == "windows" {
		return "troupe.exe"
	}
	return "troupe"
}

// env are the variables of go build for a platform. What else decides on the outcome is on its command line.
func (p platform) env() []string {
	return []string{
		"GOOS=" + p.os, "GOARCH=" + p.arch, "CGO_ENABLED=0", "GOAMD64=v1", "GOARM64=v8.0", // nothing of the machine that builds
		"GOWORK=off", "GOFLAGS=-mod=readonly", "GOEXPERIMENT=", "GOFIPS140=off",
	}
}

// buildFlags make a program that does not depend on where it was built, and has its version and its commit in it. Whoever builds the
// tag with them and with the same release of Go gets the same program.
var buildFlags = []string{"-trimpath", "-buildvcs=true", "-ldflags=-s -w"}

// build builds the command for the platforms. All have the same version.
func (o order) build(ctx context.Context, src source, dir string) (programs []program, err error) {
	for _, p := range o.platforms {
		built := program{platform: p, path: filepath.Join(dir, p.os+"_"+p.arch)}
		built.path = filepath.Join(built.path, built.name())
		args := append([]string{"build", "-v", "-o", built.path}, append(buildFlags, "./cmd/troupe")...)
		c := &compiled{}
		err := o.log.during("go build for "+p.String(), c.far, func() error { return c.run(ctx, src.dir, p.env(), args) })
		if err != nil {
			return nil, err
		}
		if built.info, err = buildinfo.ReadFile(built.path); err != nil {
			return nil, err
		}
		built.version = built.info.Main.Version
		if err := built.check(src, o.version); err != nil {
			return nil, fmt.Errorf("%s: %w", p, err)
		}
		programs = append(programs, built)
	}
	return programs, nil
}

// check requires that the program says of itself what is published of it.
func (p program) check(src source, version string) error {
	settings := map[string]string{}
	for _, s := range p.info.Settings {
		settings[s.Key] = s.Value
	}
	switch {
	case p.version == "" || p.version == "(devel)":
		return errNoVersion
	case version != "" && p.version != version:
		return fmt.Errorf("go build has made %s of it, not %s: the commit has a higher tag, too, or the path of the module is none of that major version", p.version, version)
	case settings["vcs.revision"] != src.commit:
		return fmt.Errorf("it is of commit %q, not %s", settings["vcs.revision"], src.commit)
	case settings["vcs.modified"] != "false":
		return fmt.Errorf("it is of sources that differ from commit %s", src.commit)
	case settings["CGO_ENABLED"] != "0":
		return fmt.Errorf("it is built with CGO_ENABLED=%q, and would need libraries of the machine", settings["CGO_ENABLED"])
	}
	return nil
}
