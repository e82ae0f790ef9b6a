package keeper

import (
	"context"
	"errors"
	"fmt"
	"net"
	"os"
	"time"
)

// ErrSystem reports that there are no keepers, and no children, on Windows.
var ErrSystem = errors.New("keeper: not on Windows: use Linux, or the Linux subsystem of Windows")

// DefaultKeep is how long a keeper keeps what nobody has.
const DefaultKeep = 30 * time.Second

// A Launch says how a keeper is started.
type Launch struct {
	Program []string
	Boot    string
	Keep    time.Duration
	Log     string
	Env     []string
}

// Main says that there are no keepers here.
func Main([]string) int {
	fmt.Fprintln(os.Stderr, ErrSystem)
	return 1
}

// Spawn returns ErrSystem.
func Spawn(context.Context, Options, Launch) (*Client, error) { return nil, ErrSystem }

// StartEmbedded returns ErrSystem.
func StartEmbedded(context.Context, Options, string, []string) (*Client, error) {
	return nil, ErrSystem
}

func storedBoot(string) (string, bool) { return "", false }

// SystemPaths are none where files are not restricted.
func SystemPaths() []Allowance { return nil }

func writeNow(uintptr, []byte) int { return 0 }

func dial(context.Context, string) (net.Conn, error) { return nil, ErrSystem }
