package main

import (
	"time"

	"golang.org/x/sys/unix"
)

// monotonic is the time of the clock by which systemd knows when a reload began, or 0.
func monotonic() time.Duration {
	var now unix.Timespec
	if unix.ClockGettime(unix.CLOCK_MONOTONIC, &now) != nil {
		return 0
	}
	return time.Duration(now.Nano())
}
