//go:build !troupe_nosonic

package codec

import (
	"testing"

	"github.com/bytedance/sonic"
)

// TestNative fails where sonic has a native path that the build constraint of path_native.go does not let in, as after
// an update of sonic: raise the constraint. The other way round the package does not compile.
func TestNative(t *testing.T) {
	t.Parallel()
	if Native != (sonic.APIKind == sonic.UseSonicJSON) {
		t.Errorf("Native is %v, and sonic has path %d", Native, sonic.APIKind)
	}
}
