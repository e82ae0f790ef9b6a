// Package repair takes a flaw out of the official Go SDK for the time of a build. Its internal
// function json.Unmarshal, of release 1.8.0, makes a decoder for each of several parses of a
// request, and each decoder a buffer of 32 KiB; that is most of what the SDK spends on a small
// request. A comparison without the repair would show this one mistake and little else.
//
// The build uses a copy of the SDK, from the module cache, in which one statement is changed.
// Nothing of it is kept here, and no go.mod of the repository replaces it.
package repair

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
)

// sdk is the module of the SDK, and flawed its file with the flaw.
const (
	sdk    = "github.com/modelcontextprotocol/go-sdk"
	flawed = "internal/json/json.go"
)

// edits are what changes in the SDK's file, each at the only place where its text stands. Parse
// ignores what follows the value, as a decoder does, and gets the flag that the SDK sets on its
// decoders.
var edits = []struct{ old, new string }{
	{"\t\"bytes\"\n", ""},
	{"\treturn NewDecoder(bytes.NewReader(data)).Decode(v)\n", "\t_, err := json.Parse(data, v, json.DontMatchCaseInsensitiveStructFields)\n\treturn err\n"},
}

// WriteModfile writes a repaired copy of the SDK into dir, which must be empty, and beside it a
// go.mod that uses the copy. It returns what to pass to go build -modfile in module, the directory
// of a module that requires the SDK. It fails if the SDK's code is not what it expects: then the
// flaw may be gone.
func WriteModfile(ctx context.Context, module, dir string) (string, error) {
	dir, err := filepath.Abs(dir)
	if err != nil {
		return "", fmt.Errorf("repair: %w", err)
	}
	list := exec.CommandContext(ctx, "go", "list", "-m", "-f", "{{.Dir}}", sdk)
	list.Dir = module
	out, err := list.Output()
	if err != nil {
		return "", fmt.Errorf("repair: find the SDK: %w", err)
	}
	origin := strings.TrimSpace(string(out))
	if origin == "" {
		return "", errors.New("repair: the SDK is not downloaded: run go mod download")
	}
	to := filepath.Join(dir, "sdk")
	if err := os.CopyFS(to, os.DirFS(origin)); err != nil {
		return "", fmt.Errorf("repair: %w", err)
	}
	if err := editFile(filepath.Join(to, filepath.FromSlash(flawed))); err != nil {
		return "", err
	}
	modfile := filepath.Join(dir, "go.mod")
	for _, name := range []string{"go.mod", "go.sum"} {
		text, err := os.ReadFile(filepath.Join(module, name))
		if err != nil {
			return "", fmt.Errorf("repair: %w", err)
		}
		if name == "go.mod" {
			text = fmt.Appendf(text, "\nreplace %s => %s\n", sdk, to)
		}
		if err := os.WriteFile(filepath.Join(dir, name), text, 0o644); err != nil {
			return "", fmt.Errorf("repair: %w", err)
		}
	}
	return modfile, nil
}

// editFile repairs a copy of the flawed file.
func editFile(file string) error {
	text, err := os.ReadFile(file)
	if err != nil {
		return fmt.Errorf("repair: %w", err)
	}
	for _, e := range edits {
		if n := bytes.Count(text, []byte(e.old)); n != 1 {
			return fmt.Errorf("repair: the SDK's %s has %q %d times, want once: look whether the flaw is gone", flawed, e.old, n)
		}
		text = bytes.Replace(text, []byte(e.old), []byte(e.new), 1)
	}
	// The module cache is read-only, and so is its copy.
	if err := errors.Join(os.Remove(file), os.WriteFile(file, text, 0o644)); err != nil {
		return fmt.Errorf("repair: %w", err)
	}
	return nil
}
