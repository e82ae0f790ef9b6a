//go:build full && !race

package cost

const raceEnabled = false
