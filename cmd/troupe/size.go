package main

import (
	"fmt"
	"math"
	"strconv"
	"strings"
)

// size is a number of bytes as a person writes it: 512, 4MiB, 8GiB, 10GB. Zero
// means the default.
type size int64

var sizeUnits = []struct {
	name  string
	bytes int64
}{
	{"TiB", 1 << 40}, {"GiB", 1 << 30}, {"MiB", 1 << 20}, {"KiB", 1 << 10},
	{"TB", 1e12}, {"GB", 1e9}, {"MB", 1e6}, {"KB", 1e3}, {"B", 1},
}

// Set parses text. Units are of either case; without one the number is bytes.
func (s *size) Set(text string) error {
	digits, unit := text, int64(1)
	for _, u := range sizeUnits {
		if n := len(text) - len(u.name); n > 0 && strings.EqualFold(text[n:], u.name) {
			digits, unit = strings.TrimRight(text[:n], " "), u.bytes
			break
		}
	}
	n, err := strconv.ParseInt(digits, 10, 64)
	if err != nil || n <= 0 || n > math.MaxInt64/unit {
		return fmt.Errorf("%q is not a size: want a whole number above 0 with a unit, such as 8GiB or 500MB", text)
	}
	*s = size(n * unit)
	return nil
}

// String writes the size in the largest unit of 1024 that divides it.
func (s *size) String() string {
	if *s == 0 {
		return ""
	}
	for _, u := range sizeUnits[:4] {
		if int64(*s)%u.bytes == 0 {
			return strconv.FormatInt(int64(*s)/u.bytes, 10) + u.name
		}
	}
	return strconv.FormatInt(int64(*s), 10)
}

// Type names the kind of the flag.
func (s *size) Type() string { return "size" }
