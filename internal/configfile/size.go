package configfile

import (
	"math"
	"strconv"
	"strings"
)

// sizeUnits are the units of sizes, the largest first.
var sizeUnits = []struct {
	name  string
	bytes int64
}{
	{"TiB", 1 << 40}, {"GiB", 1 << 30}, {"MiB", 1 << 20}, {"KiB", 1 << 10},
	{"TB", 1e12}, {"GB", 1e9}, {"MB", 1e6}, {"KB", 1e3}, {"B", 1},
}

// ParseSize reads a number of bytes as a person writes it: 512, 4MiB, 8GiB, 10GB. Units are of either case; without one the
// number is bytes.
func ParseSize(text string) (int64, bool) {
	digits, unit := text, int64(1)
	for _, u := range sizeUnits {
		if n := len(text) - len(u.name); n > 0 && strings.EqualFold(text[n:], u.name) {
			digits, unit = strings.TrimRight(text[:n], " "), u.bytes
			break
		}
	}
	n, err := strconv.ParseInt(digits, 10, 64)
	if err != nil || n < 0 || n > math.MaxInt64/unit {
		return 0, false
	}
	return n * unit, true
}

// Size writes a size in the largest unit of 1024 that divides it.
func Size(n int64) string {
	for _, u := range sizeUnits[:4] {
		if n > 0 && n%u.bytes == 0 {
			return strconv.FormatInt(n/u.bytes, 10) + u.name
		}
	}
	return strconv.FormatInt(n, 10)
}
