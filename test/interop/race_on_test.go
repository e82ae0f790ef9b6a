//go:build race

package interop

// buildFlags make the server as watchful as its tests.
var buildFlags = []string{"-race"}
