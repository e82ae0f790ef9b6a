//go:build !linux

package main

import "time"

// monotonic is the time of a clock of systemd, see manager_linux.go.
func monotonic() time.Duration { return 0 }
