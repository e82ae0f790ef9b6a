package client

import (
	"os/exec"
	"testing"
)

// TestDirect has cat for a server, which answers with what it is asked.
func TestDirect(t *testing.T) {
	if _, err := exec.LookPath("cat"); err != nil {
		t.Skip(err)
	}
	c := New("http://direct/mcp", &Direct{Command: []string{"cat"}})
	if err := c.BeginSession(t.Context(), "{}"); err != nil {
		t.Fatal(err)
	}
	// What has no answer is answered by cat as well, and that is read next.
	a, err := c.SendRequest(t.Context(), "1", "ping", "")
	if want := notificationOf("notifications/initialized", "") + "\n"; err != nil || string(a.Body) != want {
		t.Errorf("answered with %s, %v, want %s", a.Body, err, want)
	}
	if _, err := c.EndSession(t.Context()); err != nil {
		t.Error(err)
	}
}
