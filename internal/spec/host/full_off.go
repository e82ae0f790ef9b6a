//go:build !full

package host

// full has long tests run in their full size.
const full = false
