package codec

import (
	"os"
	"os/exec"
	"runtime"
	"testing"
)

// portable says that sonic runs its decoder and encoder for arm64. On amd64 the environment can ask for them.
var portable = Native && (runtime.GOARCH == "arm64" || os.Getenv("SONIC_USE_OPTDEC") == "1")

// TestPortablePaths runs the other tests over sonic's decoder and encoder for arm64, which leave other work to
// their caller than those for amd64.
func TestPortablePaths(t *testing.T) {
	t.Parallel()
	if portable || !Native {
		t.Skip("the portable paths are in use, or sonic is not")
	}
	if testing.Short() || raceEnabled {
		t.Skip("runs the tests a second time")
	}
	cmd := exec.CommandContext(t.Context(), os.Args[0], "-test.short")
	cmd.Env = append(os.Environ(), "SONIC_USE_OPTDEC=1", "SONIC_ENCODER_USE_VM=1")
	if out, err := cmd.CombinedOutput(); err != nil {
		t.Errorf("%v:\n%s", err, out)
	}
}
