package examples_test

import (
	"os"
	"path/filepath"
	"strings"
	"testing"
)

// TestTasks kills the server in the second step of a task and starts it again, as the comment of examples/tasks says.
func TestTasks(t *testing.T) {
	t.Parallel()
	srv := start(t, binary(t), "tasks")
	made := srv.run(`go run ./examples/try tools/call '{"name":"publish","arguments":{"title":"News"},"task":{}}'`)
	_, id, _ := strings.Cut(made, `"taskId":"`)
	id, _, _ = strings.Cut(id, `"`)
	if len(id) != 26 || !strings.Contains(made, `"status":"working"`) {
		t.Fatalf("no task: %s", made)
	}
	srv.logged("download begins, in attempt 1")
	srv.logged("transform begins, in attempt 1")
	srv.kill()
	srv.start()
	if line := srv.logged(" begins, in attempt "); !strings.HasSuffix(line, "transform begins, in attempt 2") {
		t.Errorf("the first step after the restart: %s", line)
	}
	want := `{"content":[{"type":"text","text":"published-` + id + `"}],"_meta":{"io.modelcontextprotocol/related-task":{"taskId":"` + id + `"}}}` + "\n"
	if got := srv.run(`go run ./examples/try tasks/result '{"taskId":"` + id + `"}'`); got != want {
		t.Errorf("got %swant %s", got, want)
	}
	if text, err := os.ReadFile(filepath.Join(srv.dir, "published-"+id)); err != nil || string(text) != "THE TEXT OF NEWS" {
		t.Errorf("published: %q, %v", text, err)
	}
}
