package task_test

import (
	"os"
	"path/filepath"
	"testing"
	"time"

	"github.com/troupe-run/troupe"
	"github.com/troupe-run/troupe/test/kit"
	"github.com/troupe-run/troupe/test/spec/host"
)

// TestTaskWhoseWorkIsLostRuns: a power cut leaves the records of two tasks, one that runs and one that is queued, and the stream of their work as it was before they were made. The next
// process on the directory runs both.
func TestTaskWhoseWorkIsLostRuns(t *testing.T) {
	kit.Bubble(t, func(t *testing.T) {
		dir := t.TempDir()
		o := troupe.Options{Dir: dir, Shared: troupe.SharedLimits{TasksPerNode: 1}}
		h := serve(t, o, nil)
		c := session(h)
		begin(t, c, "work", `{"text":"first"}`) // so that there is a consumer, as after any task before
		time.Sleep(time.Second)
		before := host.CopyDir(t, dir)
		ids := []string{begin(t, c, "work", `{"ms":2000,"text":"runs"}`), begin(t, c, "work", `{"ms":2000,"text":"queued"}`)}
		time.Sleep(time.Second)
		after := host.CopyDir(t, dir)
		work := filepath.Join("jetstream", "$G", "streams", "work")
		if err := os.RemoveAll(filepath.Join(after, work)); err != nil {
			t.Fatal(err)
		}
		if err := os.CopyFS(filepath.Join(after, work), os.DirFS(filepath.Join(before, work))); err != nil {
			t.Fatal(err)
		}
		o.Dir = after
		m := serve(t, o, nil).Moved(c)
		time.Sleep(15 * time.Second)
		for _, id := range ids {
			got := body(t, m.Post(host.Method("3", "tasks/get", `{"taskId":"`+id+`"}`)))
			host.Equal(t, "a task whose work was lost", str(t, got, "result", "status"), "completed")
		}
	})
}
