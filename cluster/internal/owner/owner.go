// Package owner finds out whether users other than that of the process may put files into a directory, or another directory into its place.
package owner

import (
	"io/fs"
	"os"
	"path/filepath"
)

// Others says why users other than the one of this process, and root, could put files into the directory at path, which st describes, and what to do about it. Both are "" if
// they could not, or where modes of files do not say who may write. A group that has the number of the user who owns the directory counts as that user's own, as most Linux
// systems make them.
func Others(path string, st fs.FileInfo) (why, advice string) { return others(path, st, current()) }

// Above says the same of the directories above an absolute path: whoever may write one of those may move away what is below, and put something else there, unless its
// sticky bit keeps that to owners. What is not there yet is left out.
func Above(path string) (why, advice string) {
	above := parents(path)
	for _, dir := range append([]string{path}, above...) {
		if real, err := filepath.EvalSymlinks(dir); err == nil { // of the first that is there
			above = append(above, parents(real)...)
			break
		}
	}
	for _, dir := range above {
		if st, err := os.Stat(dir); err == nil {
			if why, advice = replaces(dir, st, current()); why != "" {
				break
			}
		}
	}
	return why, advice
}

// parents are the directories above a path, the next one first.
func parents(path string) (all []string) {
	for dir := filepath.Dir(path); dir != path; path, dir = dir, filepath.Dir(dir) {
		all = append(all, dir)
	}
	return all
}
