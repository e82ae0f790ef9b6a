//go:build !unix

package admin

import "syscall"

func makeSocketPrivate(_, _ string, _ syscall.RawConn) error { return nil }
