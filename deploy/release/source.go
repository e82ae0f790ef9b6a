package main

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"strconv"
	"strings"
	"time"

	"golang.org/x/mod/semver"
)

// source is a clone of the commit that is released, and of nothing else.
type source struct {
	dir    string
	commit string
	time   time.Time // of all that is made: the commit's, or SOURCE_DATE_EPOCH
}

// clone clones the commit that is checked out in o.source, and gives it the tag o.version there. Go takes the version of a program
// from the tag, so that the same program comes out of `go build` in any clone that has it.
func (o order) clone(ctx context.Context, dir string) (s source, err error) {
	if o.version != "" && (!semver.IsValid(o.version) || semver.Canonical(o.version) != o.version) {
		return s, fmt.Errorf("%w: %q is no version such as v0.1.0", errUsage, o.version)
	}
	if changed, err := output(ctx, o.source, nil, "git", "status", "--porcelain"); err != nil {
		return s, err
	} else if changed != "" {
		o.log.say("this checkout has changes that are in no commit, and so not in the release")
	}
	s = source{dir: dir}
	if s.commit, err = output(ctx, o.source, nil, "git", "rev-parse", "HEAD"); err != nil {
		return s, err
	}
	if _, err := output(ctx, ".", nil, "git", "clone", "--quiet", "--no-hardlinks", "--no-checkout", o.source, dir); err != nil {
		return s, err
	}
	if _, err := output(ctx, dir, nil, "git", "-c", "advice.detachedHead=false", "checkout", "--quiet", "--detach", s.commit); err != nil {
		return s, err
	}
	if o.version != "" {
		tagged, err := output(ctx, dir, nil, "git", "rev-parse", "--verify", "--quiet", "refs/tags/"+o.version+"^{commit}")
		switch {
		case err != nil: // there is none
			if _, err := output(ctx, dir, nil, "git", "tag", "--no-sign", o.version); err != nil {
				return s, err
			}
		case tagged != s.commit:
			return s, fmt.Errorf("%s is the tag of commit %s, and %s is checked out", o.version, tagged, s.commit)
		}
	}
	s.time, err = releaseTime(ctx, dir, os.Getenv("SOURCE_DATE_EPOCH"))
	return s, err
}

// releaseTime is the time that all files of a release have: epoch in seconds, or that of the commit if epoch is empty.
func releaseTime(ctx context.Context, dir, epoch string) (time.Time, error) {
	from := "SOURCE_DATE_EPOCH"
	if epoch == "" {
		var err error
		if epoch, err = output(ctx, dir, nil, "git", "log", "-1", "--format=%ct"); err != nil {
			return time.Time{}, err
		}
		from = "the time of the commit"
	}
	seconds, err := strconv.ParseInt(epoch, 10, 64)
	if err != nil || seconds < 0 {
		return time.Time{}, fmt.Errorf("%s is %q, which is no number of seconds since 1970", from, epoch)
	}
	return time.Unix(seconds, 0).UTC(), nil
}

// output runs a program in a directory, with further variables, and returns what it writes to standard output, without spaces around it.
func output(ctx context.Context, dir string, env []string, name string, args ...string) (string, error) {
	cmd := exec.CommandContext(ctx, name, args...)
	cmd.Dir, cmd.Env = dir, append(os.Environ(), env...)
	var out, errs bytes.Buffer
	cmd.Stdout, cmd.Stderr = &out, &errs
	if err := cmd.Run(); err != nil {
		if ctx.Err() != nil {
			return "", context.Cause(ctx)
		}
		return "", fmt.Errorf("%s %s: %w: %s", name, strings.Join(args, " "), err, strings.TrimSpace(errs.String()))
	}
	return strings.TrimSpace(out.String()), nil
}

// errNoVersion says that Go has given a program no version.
var errNoVersion = errors.New("go build has given the program no version")
