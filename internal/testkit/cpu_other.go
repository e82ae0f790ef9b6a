//go:build !unix

package testkit

import "time"

// CPU is not known here: it is 0.
func CPU() time.Duration { return 0 }
