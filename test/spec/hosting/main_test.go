package hosting_test

import (
	"testing"

	"github.com/troupe-run/troupe/test/kit"
)

func TestMain(m *testing.M) { kit.Main(m) }
