//go:build !unix

package kit

import "time"

// CPU returns 0, because the time is not known here.
func CPU() time.Duration { return 0 }
