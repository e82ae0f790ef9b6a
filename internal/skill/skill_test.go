package skill_test

import (
	"bytes"
	"crypto/sha256"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"testing/fstest"

	"github.com/google/go-cmp/cmp"

	"github.com/troupe-run/troupe/internal/limits"
	"github.com/troupe-run/troupe/internal/skill"
)

const main = "---\nname: a\ndescription: Does it.\n---\n# A\n"

func files(text map[string]string) fstest.MapFS {
	all := fstest.MapFS{}
	for name, data := range text {
		all[name] = &fstest.MapFile{Data: []byte(data)}
	}
	return all
}

// TestRead reads a tree with a skill within, and compares digests with those of the very bytes.
func TestRead(t *testing.T) {
	t.Parallel()
	got, _, err := skill.Read(files(map[string]string{
		"x/a/SKILL.md":           main,
		"x/a/b/SKILL.md":         "---\r\nname: b\r\ndescription: \"Within: x\"\r\n---\r\ntext",
		"x/a/b/data.bin":         "\xff\x00",
		"x/a/README":             "\ufeffone\r\ntwo",
		"x/a/z/script.PY":        "",
		"x/other/SKILL.md":       main,
		"x/a-neighbour/SKILL.md": main,
	}), "x/a")
	if err != nil {
		t.Fatal(err)
	}
	var told []string
	for _, s := range got {
		told = append(told, fmt.Sprintf("%q %s %q %s", s.Dir, s.Name, s.Description, s.Frontmatter))
		for _, f := range s.Files {
			if want := fmt.Sprintf("sha256:%x", sha256.Sum256(f.Data)); f.Digest != want {
				t.Errorf("%s: got digest %s, want %s", f.Path, f.Digest, want)
			}
			told = append(told, fmt.Sprintf("  %s %q %s %t", f.Path, f.Data, f.Type, f.Text))
		}
	}
	want := []string{
		`"" a "Does it." {"name":"a","description":"Does it."}`,
		`  README "\ufeffone\r\ntwo" text/plain true`,
		fmt.Sprintf("  SKILL.md %q text/markdown true", main),
		`  b/SKILL.md "---\r\nname: b\r\ndescription: \"Within: x\"\r\n---\r\ntext" text/markdown true`,
		`  b/data.bin "\xff\x00" application/octet-stream false`,
		`  z/script.PY "" text/x-python true`,
		`"b" b "Within: x" {"name":"b","description":"Within: x"}`,
		`  b/SKILL.md "---\r\nname: b\r\ndescription: \"Within: x\"\r\n---\r\ntext" text/markdown true`,
		`  b/data.bin "\xff\x00" application/octet-stream false`,
	}
	if diff := cmp.Diff(want, told); diff != "" {
		t.Errorf("(-want +got):\n%s", diff)
	}
}

// TestRefused reads trees that are no skills, or that no host need take.
func TestRefused(t *testing.T) {
	t.Parallel()
	with := func(frontmatter string) fstest.MapFS { return files(map[string]string{"SKILL.md": frontmatter}) }
	many, wide, large := files(map[string]string{"SKILL.md": main}), files(map[string]string{"SKILL.md": main}), files(map[string]string{"SKILL.md": main})
	for i := range limits.SkillFiles.Value() {
		many[fmt.Sprintf("f%d", i)] = &fstest.MapFile{}
		wide[fmt.Sprintf("d%d", i)] = &fstest.MapFile{Mode: fs.ModeDir | 0o755}
	}
	large["large"] = &fstest.MapFile{Data: make([]byte, limits.SkillBytes.Value())}
	empty := files(map[string]string{"SKILL.md": main})
	empty["b/c"] = &fstest.MapFile{Mode: fs.ModeDir | 0o755}
	link := files(map[string]string{"SKILL.md": main})
	link["secret"] = &fstest.MapFile{Data: []byte("/etc/passwd"), Mode: fs.ModeSymlink | 0o777}
	for name, tt := range map[string]struct {
		files fs.FS
		want  string
	}{
		"no SKILL.md":             {files(map[string]string{"b/SKILL.md": strings.ReplaceAll(main, "name: a", "name: b")}), "has no SKILL.md"},
		"no frontmatter":          {with("# A\n"), "three dashes"},
		"a byte order mark":       {with("\ufeff" + main), "byte order mark"},
		"no end":                  {with("---\nname: a\n"), "does not end"},
		"not UTF-8":               {with("---\nname: a\ndescription: \xff\n---\n"), "UTF-8"},
		"no name":                 {with("---\ndescription: x\n---\n"), "its name"},
		"a name that is a number": {with("---\nname: 1\ndescription: x\n---\n"), "its name"},
		"Name for name":           {with("---\nName: a\ndescription: x\n---\n"), "its name"},
		"another Name":            {with("---\nname: A\nName: a\ndescription: x\n---\n"), "its name"},
		"DESCRIPTION":             {with("---\nname: a\nDESCRIPTION: x\n---\n"), "its description"},
		"capitals":                {with("---\nname: Ab\ndescription: x\n---\n"), "its name"},
		"two hyphens":             {with("---\nname: a--b\ndescription: x\n---\n"), "its name"},
		"a long name":             {with("---\nname: " + strings.Repeat("a", 65) + "\ndescription: x\n---\n"), "its name"},
		"no description":          {with("---\nname: a\ndescription: ' '\n---\n"), "its description"},
		"a long description":      {with("---\nname: a\ndescription: " + strings.Repeat("é", 1025) + "\n---\n"), "its description"},
		"a long frontmatter":      {with("---\nname: a\ndescription: x\nz: " + strings.Repeat("z", limits.SkillFrontmatter.Value()) + "\n---\n"), "may have 65536"},
		"levels in brackets":      {with("---\nname: a\ndescription: x\nz: " + strings.Repeat("[\n ", 64) + strings.Repeat("]", 64) + "\n---\n"), "more than 64 levels"},
		"brackets without an end": {with("---\n" + strings.Repeat("[", 60_000) + "\n---\n"), "more than 64 levels"},
		"dashes in a row":         {with("---\n" + strings.Repeat("- ", 30_000) + "\n---\n"), "more than 64 levels"},
		"names in a row":          {with("---\n" + strings.Repeat("a: ", 20_000) + "\n---\n"), "more than 64 levels"},
		"levels by indentation":   {with("---\nname: a\ndescription: x\n" + indented(64) + "---\n"), "more than 64 levels"},
		"aliases in a row":        {with("---\nz: " + strings.Repeat("*a ", 20_000) + "\n---\n"), "an anchor or an alias"},
		"many files":              {many, "more than 512 files"},
		"many directories":        {wide, "more than 512 directories"},
		"an empty directory":      {empty, "the directory b/c is empty"},
		"many bytes":              {large, "more than 16777216 bytes"},
		"a link":                  {link, "secret is no regular file"},
	} {
		if _, _, err := skill.Read(tt.files, "."); err == nil || !strings.Contains(err.Error(), tt.want) {
			t.Errorf("%s: got %v, want %q", name, err, tt.want)
		}
	}
	if _, _, err := skill.Read(with("---\nname: "+strings.Repeat("a", 64)+"\ndescription: "+strings.Repeat("é", 1024)+"\n---"), "."); err != nil {
		t.Errorf("the longest name and description: %v", err)
	}
	for _, deep := range []string{"z: " + strings.Repeat("[", 63) + strings.Repeat("]", 63) + "\ny: '" + strings.Repeat("[", 100) + "'\n", "z: " + strings.Repeat("{z: ", 63) + strings.Repeat("}", 63) + "\n", indented(63)} {
		if _, _, err := skill.Read(with("---\nname: a\ndescription: x\n"+deep+"---\n"), "."); err != nil {
			t.Errorf("the most levels: %v", err)
		}
	}
}

// indented returns a member that has levels of mappings below it by indentation.
func indented(levels int) string {
	var b strings.Builder
	for i := range levels + 1 {
		fmt.Fprintf(&b, "%sz:\n", strings.Repeat(" ", i))
	}
	return b.String()
}

// TestSampleWithin reads a skill that holds samples of skills, which are none: they are files of it, and of nothing else.
func TestSampleWithin(t *testing.T) {
	t.Parallel()
	got, odd, err := skill.Read(files(map[string]string{
		"x/SKILL.md": main, "x/b/SKILL.md": "---\nname: your-skill-name\ndescription: x\n---\n", "x/c/SKILL.md": "# None\n", "x/d/SKILL.md": strings.ReplaceAll(main, "name: a", "name: d"),
	}), "x")
	if err != nil || len(got) != 2 || got[1].Name != "d" || len(got[0].Files) != 4 {
		t.Errorf("got %v, %v", got, err)
	}
	const want = "x/b/SKILL.md: its directory must have its name, your-skill-name\n" +
		"x/c/SKILL.md: it does not begin with a line of three dashes, and so has no frontmatter"
	if diff := cmp.Diff(want, fmt.Sprint(errors.Join(odd...))); diff != "" {
		t.Errorf("(-want +got):\n%s", diff)
	}
}

// TestLinksOfADirectory has a link in a directory of the system lead out of it.
func TestLinksOfADirectory(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	if err := os.WriteFile(filepath.Join(dir, "SKILL.md"), []byte(main), 0o600); err != nil {
		t.Fatal(err)
	}
	if _, _, err := skill.Read(os.DirFS(dir), "."); err != nil {
		t.Fatal(err)
	}
	if err := os.Symlink("/etc/hostname", filepath.Join(dir, "host")); err != nil {
		t.Skip(err)
	}
	if _, _, err := skill.Read(os.DirFS(dir), "."); err == nil {
		t.Error("it follows a link out of the directory")
	}
	within := t.TempDir()
	if err := os.Symlink(t.TempDir(), filepath.Join(within, "a")); err != nil {
		t.Fatal(err)
	}
	if err := os.MkdirAll(filepath.Join(within, "a", "b"), 0o700); err != nil {
		t.Fatal(err)
	}
	for _, name := range []string{"a/SKILL.md", "a/b/SKILL.md"} {
		if err := os.WriteFile(filepath.Join(within, name), []byte(main), 0o600); err != nil {
			t.Fatal(err)
		}
	}
	for _, at := range []string{"a", "a/b"} {
		if _, _, err := skill.Read(os.DirFS(within), at); err == nil || !strings.Contains(err.Error(), "a is no directory") {
			t.Errorf("%s is a link, or behind one: got %v", at, err)
		}
	}
}

// growing is a file that has more bytes than its file system says.
type growing struct{ fstest.MapFS }

func (g growing) Open(name string) (fs.File, error) {
	f, err := g.MapFS.Open(name)
	if err != nil || name != "endless" {
		return f, err
	}
	return endless{f}, nil
}

type endless struct{ fs.File }

func (e endless) Read(p []byte) (int, error) { return copy(p, bytes.Repeat([]byte("x"), len(p))), nil }

// TestEndlessFile reads no more of a file than a skill may have.
func TestEndlessFile(t *testing.T) {
	t.Parallel()
	if _, _, err := skill.Read(growing{files(map[string]string{"SKILL.md": main, "endless": ""})}, "."); err == nil || !strings.Contains(err.Error(), "more than 16777216 bytes") {
		t.Errorf("got %v", err)
	}
}

// TestFrontmatter has frontmatters read as hosts read them, by the core schema of YAML 1.2.
func TestFrontmatter(t *testing.T) {
	t.Parallel()
	const begin = `{"name":"a","description":"x"`
	for text, want := range map[string]string{
		"":                               begin + `}`,
		"b: foo\n  bar baz\n\n  x":       begin + `,"b":"foo bar baz\nx"}`,
		"b: >-\n  foo\n  bar\nc: |\n  y": begin + `,"b":"foo bar","c":"y\n"}`,
		"b: [1, two, 'it''s', \"f\\u00e9\\n\"]\nc: {d: []}": begin + `,"b":[1,"two","it's","fé\n"],"c":{"d":[]}}`,
		"b:\n  - x\n  - y: 1 # c\n    z: 2":                 begin + `,"b":["x",{"y":1,"z":2}]}`,
		"b: 012\nc: 1_000\nd: 0x1F\ne: 0o14\nf: 0b11":       begin + `,"b":12,"c":"1_000","d":31,"e":12,"f":"0b11"}`,
		"b: 1.0\nc: 1e3\nd: .5\ne: +12\nf: -007\ng: 0.10":   begin + `,"b":1,"c":1000,"d":0.5,"e":12,"f":-7,"g":0.1}`,
		"b: 12345678901234567890123":                        begin + `,"b":12345678901234567890123}`,
		"b: yes\nc: True\nd: 'true'\ne: ~\nf:\ng: \"\"":     begin + `,"b":"yes","c":true,"d":"true","e":null,"f":null,"g":""}`,
		"b: 2026-01-02\nc: 1:30\nd: nan":                    begin + `,"b":"2026-01-02","c":"1:30","d":"nan"}`,
		"allowed-tools: Bash(git:*) Read\nb: <b>&":          begin + `,"allowed-tools":"Bash(git:*) Read","b":"<b>&"}`,
		"NAME: Any name\nDescription:":                      begin + `,"NAME":"Any name","Description":null}`,
		"metadata:\n  com.example/x: '1.0'":                 begin + `,"metadata":{"com.example/x":"1.0"}}`,

		"b:\tx\t\nc\t: 1\t# d":    begin + `,"b":"x","c":1}`,
		"b: 'x\ty'\nc: |\n  x\ty": begin + `,"b":"x\ty","c":"x\ty\n"}`,

		"b: Use\tthis":   "line 3 has a tab in text without quotes",
		"b: x\n  y\tz":   "a tab in text",
		"b: [x\ty]":      "a tab in text",
		"b: 1\t2":        "a tab in text",
		"b\tc: x":        "a tab in text",
		"b: &x 1\nc: *x": "anchor or an alias",
		"b: !!str 1":     "a tag",
		"<<: {b: 1}":     "merge key",
		"b: 1\nb: 2":     "already defined",
		"1: x":           "a name that is no string",
		"b: .inf":        "no number that JSON has",
		"b: foo: bar":    "mapping value",
	} {
		got, _, err := skill.Read(files(map[string]string{"SKILL.md": "---\nname: a\ndescription: x\n" + text + "\n---\n"}), ".")
		switch {
		case err != nil && (strings.HasPrefix(want, "{") || !strings.Contains(err.Error(), want)), err == nil && string(got[0].Frontmatter) != want:
			t.Errorf("%q: got %v, %v, want %s", text, got, err, want)
		case err != nil && strings.Contains(err.Error(), "\n"):
			t.Errorf("%q: an error of several lines: %v", text, err)
		}
	}
}
