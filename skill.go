package troupe

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"io/fs"
	"net/url"
	"path"
	"regexp"
	"slices"
	"strings"

	"github.com/troupe-run/troupe/codec"
	"github.com/troupe-run/troupe/internal/catalogue"
	"github.com/troupe-run/troupe/internal/protocol"
	"github.com/troupe-run/troupe/internal/skill"
	"github.com/troupe-run/troupe/mcp"
)

// Skill is a directory of files that tell a model how to do something (an Agent Skill, see
// https://agentskills.io/specification), for [AddSkill].
type Skill struct {
	// Files has the files of the skill: an embed.FS, the FS of an os.Root, or any other.
	Files fs.FS
	// Dir is the skill's directory in Files, with SKILL.md in it, as fs.ValidPath has names.
	// Empty is the root of Files.
	Dir string
	// Path is where the skill lies among those of the server: its SKILL.md is the resource
	// skill://Path/SKILL.md. The last part of Path must be the name that the frontmatter of
	// SKILL.md has; parts before it sort skills, as in acme/billing/refunds. Empty is the name
	// alone.
	Path string
	// Meta is the `_meta` of the resource SKILL.md, and part of the [Item] of the skill and of
	// those within it, so that ServerOptions.Visible can decide by it. The extension asks for keys
	// that begin with io.modelcontextprotocol.skills/ or with a prefix of your own. nil means none.
	Meta mcp.Meta
}

// AddSkill registers a skill (the extension io.modelcontextprotocol/skills, SEP-2640); it
// replaces one of the same Path. The server declares the extension from then on, in each
// revision, and answers skills/list, skills/get and resources/directory/read.
//
// AddSkill reads all files at once, and keeps them: what clients read has the digests that
// the skill's entry says, whatever becomes of the files. To serve other ones, call AddSkill
// again. Each file is a resource, which can be listed and subscribed to; replacing a skill
// sends the updates of files that differ. A directory below with a SKILL.md of its own is
// a skill too, and is published beside this one; where that SKILL.md makes no skill, such as
// a template of one, it is a file like others, and the log says why. Files that are UTF-8 are served as text,
// others as binary data. All skills of a directory are added by
//
//	names, err := fs.Glob(files, "skills/*/SKILL.md")
//	for _, name := range names {
//		troupe.AddSkill(s, troupe.Skill{Files: files, Dir: path.Dir(name)})
//	}
//
// AddSkill panics when the files cannot be read, one is no regular file, Dir is a link, or a
// directory is empty; when there are
// more than 512 or more than 16 MiB of them, which hosts need not take; when its SKILL.md has
// no frontmatter in YAML with a name and a description as the specification of Agent Skills
// has them, or has there what JSON has not (aliases, tags); when Path does not fit; and when
// a resource or another skill has the place of a file.
func AddSkill(s *Server, k Skill) { must(s.addSkill(k, true)) }

// TryAddSkill is AddSkill with an error in place of a panic, as [TryAddTool] is [AddTool]. It
// refuses a skill whose Path another one has.
func TryAddSkill(s *Server, k Skill) error { return s.addSkill(k, false) }

// skillEntry is a skill that a server offers.
type skillEntry struct {
	entry mcp.Skill
	meta  mcp.Meta
	tree  *skillTree
}

func (k *skillEntry) item() Item { return Item{Kind: ItemSkill, Name: k.entry.URI, Meta: k.meta} }

// skillTree is what one call of AddSkill has added: a skill, and those within it.
type skillTree struct {
	path   string
	skills []*skillEntry
	files  map[string]*resource // by URI
	odd    []error              // why some SKILL.md within are no skills
}

// skillFile is what a resource knows of itself that is a file of skills: of the one in whose directory it lies, and of those around it.
type skillFile struct {
	tree   *skillTree
	digest string
	of     []*skillEntry
}

// item is that of one of its skills: who sees any of them must be able to read all of its files.
func (f *skillFile) item() Item {
	i := f.of[0].item()
	for _, k := range f.of[1:] {
		i.others = append(i.others, k.item())
	}
	return i
}

// prefixPart is a part of a skill's path before its name: characters of a host name and of a path that need no escapes in a URI.
var prefixPart = regexp.MustCompile(`^[A-Za-z0-9._~!$&'()*+,;=-]+$`)

func readSkills(k Skill) (*skillTree, error) {
	if k.Files == nil {
		return nil, errors.New("it has no files")
	}
	if err := protocol.CheckMeta(k.Meta); err != nil {
		return nil, err
	}
	dir := cmp.Or(k.Dir, ".")
	if !fs.ValidPath(dir) {
		return nil, fmt.Errorf("the directory %q is no name that a file system takes", dir)
	}
	read, odd, err := skill.Read(k.Files, dir)
	if err != nil {
		return nil, err
	}
	t := &skillTree{path: cmp.Or(k.Path, read[0].Name), odd: odd, files: make(map[string]*resource)}
	parts := strings.Split(t.path, "/")
	for _, part := range parts {
		if !fs.ValidPath(part) || part == "." || !prefixPart.MatchString(part) {
			return nil, fmt.Errorf("%q is no part of a path", part)
		}
	}
	if last := parts[len(parts)-1]; last != read[0].Name {
		return nil, fmt.Errorf("its path ends with %q, and its name is %q", last, read[0].Name)
	}
	for _, f := range read[0].Files {
		t.files[skillURI(t.path, f.Path)] = t.fileOf(f)
	}
	for i, r := range read {
		e := &skillEntry{tree: t, meta: k.Meta.Clone(), entry: mcp.Skill{URI: skillURI(t.path, path.Join(r.Dir, skill.MainFile)), Frontmatter: mcp.Object(r.Frontmatter)}}
		for _, f := range r.Files {
			file := t.files[skillURI(t.path, f.Path)]
			file.file.of = append(file.file.of, e)
			e.entry.Resources = append(e.entry.Resources, mcp.SkillResource{URI: file.URI, Digest: f.Digest, Size: int64(len(f.Data))})
		}
		main := t.files[e.entry.URI]
		main.Name, main.Description = r.Name, r.Description
		if i == 0 {
			main.Meta = e.meta
		}
		t.skills = append(t.skills, e)
	}
	return t, nil
}

const skillScheme = "skill://"

// skillURI returns the URI of a file of the skill at a path.
func skillURI(at, file string) string {
	parts := strings.Split(file, "/")
	for i, part := range parts {
		parts[i] = escapePart(part)
	}
	return skillScheme + at + "/" + strings.Join(parts, "/")
}

// escapePart escapes what RFC 3986, section 3.3, has not in a part of a path, and nothing else: a client that joins a relative
// reference such as f(1).md to the root has to get the same URI. url.PathEscape escapes more.
func escapePart(part string) string {
	const lawful = "ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789-._~!$&'()*+,;=:@"
	var b strings.Builder
	for i := range len(part) {
		if c := part[i]; strings.IndexByte(lawful, c) >= 0 {
			b.WriteByte(c)
		} else {
			fmt.Fprintf(&b, "%%%02X", c)
		}
	}
	return b.String()
}

// fileOf returns the resource of a file. Its contents are made once, for all who read it.
func (t *skillTree) fileOf(f skill.File) *resource {
	uri := skillURI(t.path, f.Path)
	var contents mcp.ResourceContents
	if f.Text {
		contents = mcp.TextResource(uri, f.Type, string(f.Data))
	} else {
		contents = mcp.BlobResource(uri, f.Type, f.Data)
	}
	return &resource{
		Resource: mcp.Resource{URI: uri, Name: path.Base(f.Path), MIMEType: f.Type, Size: new(int64(len(f.Data)))},
		handler: func(context.Context, *Call, string, map[string]string) ([]mcp.ResourceContents, error) {
			return []mcp.ResourceContents{contents}, nil
		},
		file: &skillFile{tree: t, digest: f.Digest},
	}
}

// directory is a directory of files of skills, as one caller sees it.
type directory struct {
	now      *catalogue.Snapshot[*resource]
	view     *view
	revision mcp.Revision
	prefix   string // its URI, and a slash
}

// firstFile returns the place of its first file among all resources. What lies in it follows from there.
func (d *directory) firstFile() int {
	at, _ := slices.BinarySearch(d.now.Names, d.prefix)
	return at
}

// nextFile returns the place of the first file from a place on that is there and that the caller sees.
func (d *directory) nextFile(at int) (int, bool) {
	for ; at < len(d.now.Names) && strings.HasPrefix(d.now.Names[at], d.prefix); at++ {
		if r := d.now.ByName[d.now.Names[at]]; r.file != nil && d.view.seesItem(r.item()) {
			return at, true
		}
	}
	return 0, false
}

// appendPage is a [pager]. A child is known by its URI, which ends with a slash where it is a directory: so children are in the order of
// the files.
func (d *directory) appendPage(dst []byte, after string, size int) (out []byte, n int, last string) {
	at := d.firstFile()
	if after > d.prefix { // a cursor may be from another directory
		from, _ := slices.BinarySearch(d.now.Names, after)
		at = max(at, from)
	}
	dst = append(dst, `"resources":[`...)
	for ; ; n++ {
		for at < len(d.now.Names) && after != "" && (d.now.Names[at] == after || strings.HasSuffix(after, "/") && strings.HasPrefix(d.now.Names[at], after)) {
			at++ // the rest of the child before
		}
		var ok bool
		if at, ok = d.nextFile(at); !ok {
			last = ""
			break
		}
		if n == size {
			last = after
			break
		}
		if n > 0 {
			dst = append(dst, ',')
		}
		after = d.now.Names[at]
		if name, _, below := strings.Cut(after[len(d.prefix):], "/"); below {
			after = d.prefix + name + "/"
			dst = appendDirectory(dst, d.prefix+name, name)
		} else {
			dst = append(dst, d.now.ItemsFor(d.revision)[at]...)
		}
	}
	return append(dst, ']'), n, last
}

// appendDirectory appends a child that is a directory.
func appendDirectory(dst []byte, uri, escaped string) []byte {
	name, err := url.PathUnescape(escaped)
	if err != nil { // skillURI has escaped it
		name = escaped
	}
	dst = append(dst, `{"uri":`...)
	dst = codec.AppendString(dst, uri)
	dst = append(dst, `,"name":`...)
	dst = codec.AppendString(dst, name)
	return append(dst, `,"mimeType":"`+protocol.MIMEDirectory+`"}`...)
}
