//go:build full && race

package cost

const raceEnabled = true
