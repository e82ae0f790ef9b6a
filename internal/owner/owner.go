// Package owner finds out whether users other than that of the process may put files into a directory.
package owner

import "io/fs"

// Others says why users other than the one of this process, and root, could put files into the directory at path, which st describes, and what to do about it. Both are "" if
// they could not, or where modes of files do not say who may write. A group that has the number of the user who owns the directory counts as that user's own, as most Linux
// systems make them.
func Others(path string, st fs.FileInfo) (why, advice string) { return others(path, st, current()) }
