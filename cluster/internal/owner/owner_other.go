//go:build !unix

package owner

import "io/fs"

func others(string, fs.FileInfo, int) (why, advice string) { return "", "" }

func replaces(string, fs.FileInfo, int) (why, advice string) { return "", "" }

func current() int { return -1 }
