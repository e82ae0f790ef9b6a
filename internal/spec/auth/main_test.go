package auth_test

import (
	"testing"

	"github.com/troupe-run/troupe/internal/testkit"
)

func TestMain(m *testing.M) { testkit.Main(m) }
