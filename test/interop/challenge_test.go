package interop

import (
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	"github.com/modelcontextprotocol/go-sdk/oauthex"
)

// TestChallenges has the Go SDK's parser read every challenge that the tests of test/spec/auth got over the wire.
func TestChallenges(t *testing.T) {
	t.Parallel()
	files, err := filepath.Glob(filepath.Join("..", "spec", "auth", "testdata", "challenges", "*.txt"))
	if err != nil || len(files) < 2 {
		t.Fatalf("there are %d files: %v", len(files), err)
	}
	codes := map[string]string{"400": "invalid_request", "401": "invalid_token", "403": "insufficient_scope"}
	for _, file := range files {
		data, err := os.ReadFile(file)
		if err != nil {
			t.Fatal(err)
		}
		for n, line := range strings.Split(strings.TrimSuffix(string(data), "\n"), "\n") {
			at := fmt.Sprintf("%s:%d", filepath.Base(file), n+1)
			columns := strings.Split(line, "\t")
			if len(columns) != 4 {
				t.Errorf("%s has %d columns", at, len(columns))
				continue
			}
			status, reason, scopes := columns[0], columns[1], columns[2]
			got, err := oauthex.ParseWWWAuthenticate([]string{columns[3]})
			if err != nil || len(got) != 1 || got[0].Scheme != "bearer" {
				t.Errorf("%s: %v, %v", at, got, err)
				continue
			}
			params := got[0].Params
			metadata := params["resource_metadata"]
			if !strings.HasPrefix(metadata, "https://mcp.example.com/.well-known/oauth-protected-resource/") {
				t.Errorf("%s: the metadata is at %q", at, metadata)
			}
			want := map[string]string{"resource_metadata": metadata, "scope": scopes}
			if reason != "missing" {
				want["error"], want["error_description"] = codes[status], params["error_description"]
				if want["error_description"] == "" {
					t.Errorf("%s has no description", at)
				}
			}
			if diff := cmp.Diff(want, params); diff != "" {
				t.Errorf("%s: %s", at, diff)
			}
		}
	}
}
