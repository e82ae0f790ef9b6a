//go:build race

package host

// RaceEnabled makes long tests smaller.
const RaceEnabled = true
