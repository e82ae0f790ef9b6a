//go:build !race

package interop

var buildFlags []string
