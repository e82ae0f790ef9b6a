package kernel

import "github.com/troupe-run/troupe/internal/directory"

// Directory finds the live actor of a key. See package directory.
type Directory[K, A comparable] = directory.Directory[K, A]

// NewDirectory makes an empty directory.
func NewDirectory[K, A comparable]() *Directory[K, A] { return directory.New[K, A]() }
