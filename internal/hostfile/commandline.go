package hostfile

import (
	"cmp"
	"errors"
	"fmt"
	"os"
	"path"
	"path/filepath"
	"runtime"
	"slices"
	"strings"

	"github.com/troupe-run/troupe/host"
)

// launchers are programs that run another one, which their first argument names, behind a word such as run for some.
var launchers = []string{"npx", "bunx", "uvx", "pipx", "node", "deno", "bun", "pnpm", "yarn", "npm", "python", "python3", "uv", "go", "env"}

// FindProgram returns nil if the program of a command is where the command will be looked for, and else what is wrong, with the
// directories. lookup returns a variable of this process. Targets that are no command have no program to miss.
func (b Backend) FindProgram(lookup func(name string) (string, bool)) error {
	name, _, ok := b.Target.Command()
	switch {
	case !ok:
		return nil
	case runtime.GOOS == "windows":
		return errors.New("commands cannot be hosted on Windows; URLs can")
	}
	shown := b.Mask(name)
	if strings.ContainsRune(name, '/') || filepath.IsAbs(name) {
		if !filepath.IsAbs(name) {
			name = filepath.Join(b.Options.Dir, name)
		}
		if !isProgram(name) {
			return fmt.Errorf("%s is no program that can be run", shown)
		}
		return nil
	}
	path, own := b.Options.Env["PATH"]
	if !own {
		path, _ = lookup("PATH")
	}
	for _, dir := range filepath.SplitList(path) {
		if isProgram(filepath.Join(dir, name)) {
			return nil
		}
	}
	return fmt.Errorf("there is no program %s in PATH, which is %s", shown, b.Mask(path))
}

func isProgram(path string) bool {
	info, err := os.Stat(path)
	return err == nil && !info.IsDir() && info.Mode()&0o111 != 0
}

// launcherWords stand before the name of a program.
var launcherWords = []string{"run", "exec", "dlx", "x", "tool"}

// programEndings are those of files that are programs.
var programEndings = []string{".js", ".mjs", ".cjs", ".ts", ".py", ".sh", ".exe", ".cmd", ".bat"}

// FromCommand is the backend of a command line, as the only one of its server: its items have no prefix. Arguments are as
// they are, as a shell has read them. There must be one at least.
func FromCommand(words ...string) *File {
	secret := secretArguments(words[1:])
	b := Backend{
		Name: cleanName(cmp.Or(strings.Trim(programOf(words), "."), "backend")), Path: "the command line", Line: 1, Target: host.Command(words[0], words[1:]...),
		Options: host.Options{Prefix: host.NoPrefix, Hide: hiddenTexts(secret)}, secrets: usefulSecrets(secret),
	}
	return &File{Path: b.Path, Backends: []Backend{b}}
}

// programOf returns what a command line is about, in a word: server-memory for npx -y @modelcontextprotocol/server-memory.
func programOf(words []string) string {
	base := func(word string) string {
		word = strings.TrimRight(word, `/\`)
		word = word[strings.LastIndexAny(word, `/\`)+1:]
		if name, _, ok := strings.Cut(word, "@"); ok && name != "" { // a version
			word = name
		}
		if ext := path.Ext(word); slices.Contains(programEndings, ext) {
			word = strings.TrimSuffix(word, ext)
		}
		return word
	}
	program := base(words[0])
	if !slices.Contains(launchers, program) {
		return program
	}
	for i, word := range words[1:] {
		switch name := base(word); {
		case strings.HasPrefix(word, "-"), slices.Contains(launcherWords, word), program == "env" && strings.Contains(word, "="), name == "":
		case program == "env":
			return programOf(words[i+1:])
		default:
			return name
		}
	}
	return program
}
