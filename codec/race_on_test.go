//go:build race

package codec

// raceEnabled says that allocations cannot be counted.
const raceEnabled = true
