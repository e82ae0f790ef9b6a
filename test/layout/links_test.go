package layout

import (
	"fmt"
	"maps"
	"path"
	"regexp"
	"slices"
	"strings"
	"unicode"
)

// documentIndex is the page that leads to all pages of its directory.
const documentIndex = "docs/README.md"

var (
	fenced   = regexp.MustCompile("(?ms)^[ \t]*```.*?^[ \t]*```")
	codeSpan = regexp.MustCompile("`[^`\n]*`")
	link     = regexp.MustCompile(`\]\(([^)\s]+)\)`)
	heading  = regexp.MustCompile(`(?m)^#+ (.*)$`)
	scheme   = regexp.MustCompile(`^[a-z]+:`)
)

// linksOf returns the targets of a document's links within the repository, each as a path of the repository and a fragment.
func linksOf(name string, text []byte) (all [][2]string) {
	for _, m := range link.FindAllSubmatch(codeSpan.ReplaceAll(fenced.ReplaceAll(text, nil), nil), -1) {
		to := string(m[1])
		if scheme.MatchString(to) {
			continue
		}
		file, fragment, _ := strings.Cut(to, "#")
		target := name
		if file != "" {
			target = path.Join(path.Dir(name), file)
		}
		all = append(all, [2]string{target, fragment})
	}
	return all
}

// brokenLinks requires that each link of each document leads to a file or a directory of the repository, and its fragment to a heading.
func brokenLinks(repo repository) []string {
	directories := map[string]bool{".": true}
	for name := range repo.texts {
		for dir := path.Dir(name); !directories[dir]; dir = path.Dir(dir) {
			directories[dir] = true
		}
	}
	var violations []string
	for _, name := range documentsOf(repo) {
		for _, to := range linksOf(name, repo.texts[name]) {
			text, file := repo.texts[to[0]]
			switch {
			case !file && !directories[to[0]]:
				violations = append(violations, fmt.Sprintf("%s links to %s, which is not there", name, to[0]))
			case to[1] != "" && !slices.Contains(anchors(text), to[1]):
				violations = append(violations, fmt.Sprintf("%s links to %s#%s, which is no heading there", name, to[0], to[1]))
			}
		}
	}
	return violations
}

// anchors are the fragments by which the headings of a document can be named.
func anchors(text []byte) (all []string) {
	for _, m := range heading.FindAllSubmatch(fenced.ReplaceAll(text, nil), -1) {
		all = append(all, strings.Map(func(r rune) rune {
			switch {
			case r == ' ':
				return '-'
			case r == '-' || r == '_' || unicode.IsLetter(r) || unicode.IsDigit(r):
				return unicode.ToLower(r)
			}
			return -1
		}, string(m[1])))
	}
	return all
}

// unlinkedDocuments requires that the index links each document of its directory, or the directory in it that has the document.
func unlinkedDocuments(repo repository) []string {
	linked := map[string]bool{}
	for _, to := range linksOf(documentIndex, repo.texts[documentIndex]) {
		linked[to[0]] = true
	}
	var violations []string
	for _, name := range documentsOf(repo) {
		if within(name, path.Dir(documentIndex)) && name != documentIndex && !linked[name] && !linked[path.Dir(name)] {
			violations = append(violations, fmt.Sprintf("%s is not linked from %s", name, documentIndex))
		}
	}
	return violations
}

// documentsOf are the Markdown files of a repository, in order.
func documentsOf(repo repository) []string {
	return slices.DeleteFunc(slices.Sorted(maps.Keys(repo.texts)), func(name string) bool { return !strings.HasSuffix(name, ".md") })
}

var linkCases = []layoutCase{
	{"link to no file", brokenLinks, map[string]string{"docs/a.md": "see [b](b.md)\n"}, "docs/a.md links to docs/b.md"},
	{"link to no file, out of a directory", brokenLinks, map[string]string{"docs/design/a.md": "see [b](../b.md)\n"}, "links to docs/b.md"},
	{"link to no heading", brokenLinks, map[string]string{"docs/a.md": "see [b](b.md#two)\n", "docs/b.md": "# One\n```\n# two\n```\n"}, "docs/b.md#two, which is no heading"},
	{"link to no heading of its own", brokenLinks, map[string]string{"a.md": "see [b](#two)\n# One\n"}, "a.md#two"},
	{"links that lead somewhere", brokenLinks, map[string]string{
		"README.md": "[a](docs/a.md#21-fields-of-a-peer), [itself](#why), [docs](docs), [web](https://troupe.run/x) and `f[T](nil)`\n## Why\n", "docs/a.md": "## 21. Fields of `a` peer\n[up](../README.md)\n```go\nf[T](nil)\n```\n",
	}, ""},
	{"document without a link", unlinkedDocuments, map[string]string{"docs/README.md": "[a](a.md)\n", "docs/a.md": "", "docs/b.md": ""}, "docs/b.md is not linked"},
	{"document of a directory without a link", unlinkedDocuments, map[string]string{"docs/README.md": "[a](a.md)\n", "docs/a.md": "", "docs/more/b.md": ""}, "docs/more/b.md is not linked"},
	{"documents with links", unlinkedDocuments, map[string]string{"docs/README.md": "[a](a.md), [more](more)\n", "docs/a.md": "", "docs/more/b.md": "", "other/c.md": ""}, ""},
}
