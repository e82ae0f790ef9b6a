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
	underWay := "transform"
	for line := range srv.log { // what the process has done until it was killed, on a busy machine
		switch {
		case strings.HasSuffix(line, "transform is done"):
			underWay = "" // its result may have been stored, or not
		case strings.HasSuffix(line, "upload begins, in attempt 1"):
			underWay = "upload"
		case strings.HasSuffix(line, "upload is done"):
			t.Fatal("the task has ended before the process was killed")
		}
	}
	srv.start()
	if line := srv.logged(" begins, in attempt "); !strings.HasSuffix(line, underWay+" begins, in attempt 2") || strings.Contains(line, "download") {
		t.Errorf("the first step after the restart, with %q under way: %s", underWay, line)
	}
	want := `{"content":[{"type":"text","text":"published-` + id + `"}],"_meta":{"io.modelcontextprotocol/related-task":{"taskId":"` + id + `"}}}` + "\n"
	if got := srv.run(`go run ./examples/try tasks/result '{"taskId":"` + id + `"}'`); got != want {
		t.Errorf("got %swant %s", got, want)
	}
	if text, err := os.ReadFile(filepath.Join(srv.dir, "published-"+id)); err != nil || string(text) != "THE TEXT OF NEWS" {
		t.Errorf("published: %q, %v", text, err)
	}
}
