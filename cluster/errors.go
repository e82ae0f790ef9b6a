package cluster

import (
	"errors"
)

// Errors about a data directory, beside store.ErrNewer and store.ErrDamaged. Open returns them with a text that names the path and what to do. It leaves the directory as it was.
var (
	// ErrLocked: another process, or another Node of this one, holds the directory.
	ErrLocked = errors.New("data directory is in use")
	// ErrForeign: the directory holds files, and none says that it is a data
	// directory.
	ErrForeign = errors.New("not a data directory")
	// ErrWritable: users other than that of the process, and root, may put files into the directory, or it is another user's.
	ErrWritable = errors.New("others may write it")
)

// ErrRemote: the NATS servers of Options.Remote cannot be used. Open returns it with a text that says why and what to do.
var ErrRemote = errors.New("nats cannot be used")
