//go:build !race

package bubble

// RaceEnabled is true under the race detector, which makes pools lose what they have, and long tests smaller.
const RaceEnabled = false
