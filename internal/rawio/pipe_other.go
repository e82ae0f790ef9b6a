//go:build unix && (!linux || race)

package rawio

import "syscall"

// ReadPipe reads what has come through a non-blocking end of a pipe, as [syscall.Read] does.
func ReadPipe(fd uintptr, p []byte) (int, error) { return syscall.Read(int(fd), p) }

// WritePipe writes what a non-blocking end of a pipe takes, as [syscall.Write] does.
func WritePipe(fd uintptr, p []byte) (int, error) { return syscall.Write(int(fd), p) }
