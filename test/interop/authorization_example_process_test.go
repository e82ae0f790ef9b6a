package interop

import (
	"os"
	"os/exec"
	"strings"
	"testing"
)

// TestAuthorizationOfTheExample has a client of each SDK sign in at examples/auth, which is its own authorization server, and ask there for a scope more.
func TestAuthorizationOfTheExample(t *testing.T) {
	t.Parallel()
	example, err := built("examples/auth")
	if err != nil {
		t.Fatal(err)
	}
	cmd := exec.Command("sh", "-c", `exec "$0" 2>&1`, example) // it logs where it serves
	cmd.Env = append(os.Environ(), "LISTEN=127.0.0.1:0")
	said := speak(t, cmd).hear(t)
	_, endpoint, ok := strings.Cut(said, "serving ")
	if !ok {
		t.Fatalf("it says %q", said)
	}
	s := &site{modules: nodeModules(t), format: "EdDSA", issuer: strings.TrimSuffix(endpoint, "/mcp") + "/id", endpoint: endpoint}
	client := func(name string, newest bool) authClient {
		return authClient{
			Name: name, Register: "dcr", Newest: newest, Steps: []string{"call", "up", "call"}, Tools: []string{"read", "write"},
			answers: map[string]string{"call": "ada reads", "up": "ada writes"},
		}
	}
	t.Run("TypeScript", func(t *testing.T) {
		t.Parallel()
		driveAuthorization(t, s, "2.4.0", client("2025-11-25", false), client("2026-07-28", true))
	})
	t.Run("Go", func(t *testing.T) {
		t.Parallel()
		s.driveGo(t, client("dcr", false))
	})
}
