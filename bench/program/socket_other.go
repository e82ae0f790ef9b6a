//go:build !linux

package program

import (
	"errors"
	"os"
)

// Listen opens a socket that outlives the processes that serve it, on Linux alone.
func Listen(string) (*os.File, error) { return nil, errors.New("only Linux hands sockets over") }
