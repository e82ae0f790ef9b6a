package troupe

import "testing"

// TestDefaultID checks the ids of paths. Sessions are stored under them, so they must not
// change from one release to the next.
func TestDefaultID(t *testing.T) {
	t.Parallel()
	for path, want := range map[string]string{
		"/mcp": "main", "/": "main", "/weather": "weather", "/weather/mcp": "weather", "/7/mcp": "7", "/a-b/mcp": "a-b",
		"/main": "main-zgdrfzcu", "/Weather": "weather-ynwfpnoh", "/t/7/mcp": "t-7-2gkr2sfk", "/t-7/mcp": "t-7", "/_/mcp": "path-lwkafw6y",
		"/a/very/long/path/that/goes/on/mcp": "a-very-long-path-that-g-chxufgeo",
	} {
		if got := defaultID(path); got != want || !serverID.MatchString(got) {
			t.Errorf("%s is %s, want %s", path, got, want)
		}
	}
}
