//go:build full

package host

// full makes long tests run in their full size.
const full = true
