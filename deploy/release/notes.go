package main

import (
	"fmt"
	"regexp"
	"strings"

	"golang.org/x/mod/module"
)

// relativeLink is a link to a file of the repository.
var relativeLink = regexp.MustCompile(`\]\(((?:[\w.-]+/)*[\w.-]+\.md(?:#[^)\s]*)?)\)`)

// notesOf are the notes of a release: what CHANGELOG.md says of it, below its heading. A commit without a tag has what the next
// release is to have, or the newest has. Links lead to the documents of ref, a tag or a commit, as the notes are read elsewhere.
func notesOf(changelog, number, ref string) (string, error) {
	headings := regexp.MustCompile(`(?m)^## \[([^\]]+)\].*\n`)
	found := headings.FindAllStringSubmatchIndex(changelog, -1)
	untagged := module.IsPseudoVersion("v" + number)
	for i, at := range found {
		if changelog[at[2]:at[3]] != number && !untagged {
			continue
		}
		end := len(changelog)
		if i+1 < len(found) {
			end = found[i+1][0]
		}
		if text := strings.TrimSpace(changelog[at[1]:end]); text != "" {
			return relativeLink.ReplaceAllString(text, "](https://github.com/troupe-run/troupe/blob/"+ref+"/$1)") + "\n", nil
		}
	}
	return "", fmt.Errorf("CHANGELOG.md says nothing of %s: it needs a heading \"## [%s]\" with text below it", number, number)
}
