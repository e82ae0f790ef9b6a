//go:build !race

package troupe_test

// raceEnabled makes long tests smaller.
const raceEnabled = false
