// Package skill reads skills (https://agentskills.io/specification) from a file system: directories with a SKILL.md, and whatever
// it refers to. A skill is read whole, once: what is served of it later are the bytes that its digests are of.
//
// A file system decides what it opens under a name, and so a tree is read with caution: no more files and bytes than the limits
// say, regular files only, since a link may lead anywhere, and under names that fs.ValidPath takes, which have no "..".
//
// Its functions keep nothing and may be called from any goroutine. The slices of a Skill are shared, and nobody may change them.
package skill

import (
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"path"
	"slices"
	"strings"
	"unicode/utf8"

	"github.com/troupe-run/troupe/internal/limits"
)

// MainFile is the file that makes a directory a skill.
const MainFile = "SKILL.md"

// File is one file of a skill.
type File struct {
	Path   string // from the directory of the outermost skill, with slashes
	Data   []byte
	Digest string // as the wire has it
	Type   string // a MIME type
	Text   bool   // the file is UTF-8
}

// Skill is a skill as it was read.
type Skill struct {
	Dir               string // from the directory of the outermost skill; empty for that one
	Name, Description string
	Frontmatter       json.RawMessage // an object
	Files             []File          // by path; those of skills within it among them
}

// Read returns the skill in the directory dir of fsys, and behind it the skills within, by their directories. A SKILL.md below that
// makes no skill, such as a template of one, is a file like others: odd says why of each. An error says what is wrong with the
// files, or that they could not be read.
func Read(fsys fs.FS, dir string) (skills []Skill, odd []error, err error) {
	files, err := readFiles(fsys, dir)
	if err != nil {
		return nil, nil, err
	}
	for _, f := range files {
		if path.Base(f.Path) != MainFile {
			continue
		}
		s, err := skillOf(f, files)
		switch {
		case err == nil:
			skills = append(skills, s)
		case f.Path == MainFile:
			return nil, nil, fmt.Errorf("%s: %w", path.Join(dir, f.Path), err)
		default:
			odd = append(odd, fmt.Errorf("%s: %w", path.Join(dir, f.Path), err))
		}
	}
	slices.SortFunc(skills, func(a, b Skill) int { return strings.Compare(a.Dir, b.Dir) })
	if len(skills) == 0 || skills[0].Dir != "" {
		return nil, nil, fmt.Errorf("the directory has no %s", MainFile)
	}
	return skills, odd, nil
}

func readFiles(fsys fs.FS, dir string) (files []File, err error) {
	most, room := limits.SkillFiles.Value(), int64(limits.SkillBytes.Value())
	if err := checkDir(fsys, dir); err != nil {
		return nil, err
	}
	dirs, full := 0, make(map[string]bool) // full has the directories with something in them
	err = fs.WalkDir(fsys, dir, func(name string, d fs.DirEntry, err error) error {
		switch {
		case err != nil:
			return err
		case !fs.ValidPath(name):
			return fmt.Errorf("%q is no valid name", name)
		}
		full[path.Dir(name)] = true
		switch {
		case d.IsDir():
			if _, ok := full[name]; !ok {
				full[name] = name == dir
			}
			if dirs++; dirs > most {
				return fmt.Errorf("it has more than %d directories", most)
			}
			return nil
		case !d.Type().IsRegular():
			return fmt.Errorf("%s is no regular file", name)
		case len(files) == most:
			return fmt.Errorf("it has more than %d files", most)
		}
		data, err := readFile(fsys, name, room)
		if err != nil {
			return err
		}
		room -= int64(len(data))
		sum := sha256.Sum256(data)
		text := utf8.Valid(data)
		files = append(files, File{Path: within(dir, name), Data: data, Digest: "sha256:" + hex.EncodeToString(sum[:]), Type: typeOf(name, text), Text: text})
		return nil
	})
	if err != nil {
		return nil, err
	}
	for name, something := range full {
		if !something { // a client would have to find it, and resources are files
			return nil, fmt.Errorf("the directory %s is empty: remove it, or put a file into it", name)
		}
	}
	slices.SortFunc(files, func(a, b File) int { return strings.Compare(a.Path, b.Path) })
	return files, nil
}

// checkDir refuses a directory that is a link, or lies behind one: it may lead out of the file system.
func checkDir(fsys fs.FS, dir string) error {
	for at, c := range dir + "/" {
		if c != '/' {
			continue
		}
		if info, err := fs.Lstat(fsys, dir[:at]); err != nil {
			return err
		} else if !info.IsDir() {
			return fmt.Errorf("%s is no directory", dir[:at])
		}
	}
	return nil
}

// within returns name as seen from dir.
func within(dir, name string) string {
	if dir == "." {
		return name
	}
	return strings.TrimPrefix(name, dir+"/")
}

// readFile reads a file of at most room bytes.
func readFile(fsys fs.FS, name string, room int64) ([]byte, error) {
	f, err := fsys.Open(name)
	if err != nil {
		return nil, err
	}
	data, err := io.ReadAll(io.LimitReader(f, room+1))
	if err := errors.Join(err, f.Close()); err != nil {
		return nil, fmt.Errorf("read %s: %w", name, err)
	}
	if int64(len(data)) > room {
		return nil, fmt.Errorf("its files have more than %d bytes", limits.SkillBytes.Value())
	}
	return data, nil
}

// skillOf returns the skill whose SKILL.md is main.
func skillOf(main File, all []File) (Skill, error) {
	if !main.Text {
		return Skill{}, errors.New("it is not UTF-8")
	}
	text, err := frontmatterOf(main.Data)
	if err != nil {
		return Skill{}, err
	}
	if most := limits.SkillFrontmatter.Value(); len(text) > most {
		return Skill{}, fmt.Errorf("its frontmatter has %d bytes, and may have %d", len(text), most)
	}
	s := Skill{Dir: strings.TrimSuffix(strings.TrimSuffix(main.Path, MainFile), "/")}
	if s.Frontmatter, err = toJSON(text); err != nil {
		return Skill{}, fmt.Errorf("its frontmatter: %w", err)
	}
	if s.Name, s.Description, err = check(s.Frontmatter); err != nil {
		return Skill{}, err
	}
	if s.Dir != "" && path.Base(s.Dir) != s.Name {
		return Skill{}, fmt.Errorf("its directory must have its name, %s", s.Name)
	}
	for _, f := range all {
		if s.Dir == "" || strings.HasPrefix(f.Path, s.Dir+"/") {
			s.Files = append(s.Files, f)
		}
	}
	return s, nil
}

// types are the MIME types by the ends of names. They do not depend on the machine, as those of package mime do: all nodes must
// say the same.
var types = map[string]string{
	".bash": "text/x-shellscript", ".c": "text/x-c", ".css": "text/css", ".csv": "text/csv", ".gif": "image/gif", ".go": "text/x-go",
	".htm": "text/html", ".html": "text/html", ".jpeg": "image/jpeg", ".jpg": "image/jpeg", ".js": "text/javascript",
	".json": "application/json", ".md": "text/markdown", ".mjs": "text/javascript", ".pdf": "application/pdf", ".png": "image/png",
	".py": "text/x-python", ".rb": "text/x-ruby", ".rs": "text/x-rust", ".sh": "text/x-shellscript", ".sql": "application/sql",
	".svg": "image/svg+xml", ".toml": "application/toml", ".ts": "text/x-typescript", ".webp": "image/webp", ".xml": "application/xml",
	".yaml": "application/yaml", ".yml": "application/yaml", ".zip": "application/zip",
}

func typeOf(name string, text bool) string {
	if t, ok := types[strings.ToLower(path.Ext(name))]; ok {
		return t
	}
	if text {
		return "text/plain"
	}
	return "application/octet-stream"
}
