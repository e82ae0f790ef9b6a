//go:build unix

package main

import (
	"context"
	"errors"
	"fmt"
	"io"
	"net/http"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"syscall"
	"testing"

	"github.com/troupe-run/troupe/test/kit"
	"github.com/troupe-run/troupe/test/kit/when"
)

// kept is what clients have of a process when a backup is made, and what the process that is started from it must do with that.
type kept struct {
	session *seated
	first   string   // id of the first event of a stream that has ended
	rest    []string // what came after it
	asked   *seated  // a call that may run again asks it
	once    string   // id of an event of a call that may not run again
	task    string
	endLoad func() // ends what others do meanwhile
}

// streamed calls a tool in a session, in a way that makes its response a stream.
func (s *seated) streamed(t *testing.T, p *process, id, name, arguments string) *exchange {
	t.Helper()
	x, err := p.post(t.Context(), `{"jsonrpc":"2.0","id":`+id+`,"method":"tools/call","params":{`+tool(name, arguments)+`,"_meta":{"progressToken":"p"}}}`, s.header()...)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(x.close)
	return x
}

// readRest reads the data of all events that are left of a stream.
func readRest(t *testing.T, x *exchange) (all []string) {
	t.Helper()
	for {
		_, data, err := x.event()
		if errors.Is(err, io.EOF) {
			return all
		}
		if err != nil {
			t.Fatalf("%s: %v", x.Status, err)
		}
		if data != "" {
			all = append(all, data)
		}
	}
}

// beginWork has clients begin all that a backup is to have, and others work until the backup is made.
func beginWork(t *testing.T, p *process) *kept {
	t.Helper()
	k := &kept{session: sit(t, p, "2025-11-25"), asked: sit(t, p, "2025-11-25")}
	ended := k.session.streamed(t, p, "1", "count", `{"to":5}`)
	k.first, _ = ended.next(t)
	k.rest = readRest(t, ended)
	if err := k.asked.begin(t.Context(), p, "Tea or coffee?"); err != nil {
		t.Fatal(err)
	}
	var err error
	if k.once, _, err = k.session.streamed(t, p, "12", "tick", `{"n":1000,"every_ms":60000}`).event(); err != nil {
		t.Fatal(err)
	}
	k.task = p.begun(t, "job", `{"steps":20,"step_ms":100}`)
	ctx, cancel := context.WithCancel(t.Context())
	var others sync.WaitGroup
	for range 4 {
		s := sit(t, p, "2025-11-25")
		others.Go(func() {
			for n := 0; ctx.Err() == nil; n++ {
				x, err := p.post(ctx, fmt.Sprintf(`{"jsonrpc":"2.0","id":%d,"method":"tools/call","params":{%s,"_meta":{"progressToken":"p"}}}`, n, tool("count", `{"to":10,"delay_ms":5}`)), s.header()...)
				if err == nil {
					_, _ = io.Copy(io.Discard, x.rd)
					x.close()
				}
			}
		})
	}
	k.endLoad = func() {
		cancel()
		others.Wait()
	}
	return k
}

// check holds a process on a backup to what docs/operate.md says of one. event and late came after the backup was made.
func (k *kept) check(t *testing.T, p *process, event string, late *seated) {
	t.Helper()
	p.echo(t, k.session.session)
	again := func(s *seated, last string) *exchange {
		x, err := p.send(t.Context(), "GET", "", s.header("Last-Event-ID", last)...)
		if err != nil {
			t.Fatal(err)
		}
		t.Cleanup(x.close)
		return x
	}
	if got := readRest(t, again(k.session, k.first)); !slices.Equal(got, k.rest) {
		t.Errorf("of a stream that had ended come\n%q, want\n%q", got, k.rest)
	}
	if err := k.asked.resume(t.Context(), p); err != nil {
		t.Fatal(err)
	}
	if got, err := k.asked.end(t.Context(), p, "tea"); err != nil || !strings.Contains(got, "tea") {
		t.Errorf("a call that may run again ends with %q (%v)", got, err)
	}
	if got := readRest(t, again(k.session, k.once)); len(got) != 1 || !strings.Contains(got[0], `"id":12,"error":{"code":-32010`) {
		t.Errorf("a call that may not run again ends with %q", got)
	}
	x := again(k.session, event)
	if body, err := io.ReadAll(x.rd); err != nil || x.StatusCode != http.StatusBadRequest || !strings.Contains(string(body), "-32011") {
		t.Errorf("an event that came after the backup is answered with %s: %s (%v)", x.Status, body, err)
	}
	if status, _, body := p.request(t, "POST", "/mcp", late.session, `{"jsonrpc":"2.0","id":1,"method":"ping"}`); status != http.StatusNotFound {
		t.Errorf("a session that began after the backup is answered with %d: %s", status, body)
	}
	p.until(t, k.task, "completed")
}

// goOn makes an event that no backup has, and a session.
func (k *kept) goOn(t *testing.T, p *process) (event string, late *seated) {
	t.Helper()
	event, _ = k.session.streamed(t, p, "3", "count", `{"to":1}`).next(t)
	return event, sit(t, p, "2025-11-25")
}

// TestBackupOfADataDirectory copies a data directory under load, while its process stands still, as docs/operate.md says, and starts another
// process on the copy. The first one goes on as if nothing had been.
func TestBackupOfADataDirectory(t *testing.T) {
	t.Parallel()
	dir, backup := filepath.Join(t.TempDir(), "data"), filepath.Join(t.TempDir(), "backup")
	p := start(t, "--data", dir)
	k := beginWork(t, p)
	p.signal(t, syscall.SIGSTOP)
	out, err := exec.Command("cp", "-a", dir, backup).CombinedOutput()
	p.signal(t, syscall.SIGCONT)
	if err != nil {
		t.Fatalf("%v: %s", err, out)
	}
	event, late := k.goOn(t, p)
	k.endLoad()
	q := start(t, "--data", backup)
	k.check(t, q, event, late)
	p.echo(t, k.session.session)
	p.echo(t, late.session)
	p.until(t, k.task, "completed")
}

// natscli is the release of the command nats that docs/operate.md was tried with.
const natscli = "github.com/nats-io/natscli/nats@v0.5.0"

// TestBackupOfNATSServers has the command nats copy the streams of a process's store under load, and bring them to other servers.
func TestBackupOfNATSServers(t *testing.T) {
	when.Full(t, "compiles the command nats")
	t.Parallel()
	binary(t)
	tools, backup := t.TempDir(), filepath.Join(t.TempDir(), "backup")
	install := exec.Command("go", "install", natscli)
	install.Env = append(install.Environ(), "GOBIN="+tools)
	if out, err := install.CombinedOutput(); err != nil {
		t.Skipf("the command nats cannot be had here: %v\n%s", err, out)
	}
	try := func(c *kit.NATS, args ...string) (string, error) {
		out, err := exec.Command(filepath.Join(tools, "nats"), append(args, "--server", c.URL())...).CombinedOutput()
		return string(out), err
	}
	nats := func(c *kit.NATS, args ...string) string {
		t.Helper()
		out, err := try(c, args...)
		if err != nil {
			t.Fatalf("nats %q: %v\n%s", args, err, out)
		}
		return out
	}
	from, to := kit.StartNATS(t, 3, nil), kit.StartNATS(t, 3, nil)
	p := onNATS(t, from, "a")
	k := beginWork(t, p)
	nats(from, "backup", "account", backup, "--force")
	event, late := k.goOn(t, p)
	k.endLoad()
	p.signal(t, syscall.SIGKILL)
	p.exit(t)
	out, err := try(to, "backup", "restore", "account", backup)
	for tries := 1; err != nil && strings.Contains(out, "no responders available") && tries < 4; tries++ { // the guide says what to do
		t.Log("the servers were not ready for a stream")
		for _, name := range strings.Fields(nats(to, "stream", "ls", "-n")) {
			if strings.HasPrefix(name, "troupe_") {
				nats(to, "stream", "rm", name, "-f")
			}
		}
		out, err = try(to, "backup", "restore", "account", backup)
	}
	if err != nil {
		t.Fatalf("nats backup restore: %v\n%s", err, out)
	}
	q := onNATS(t, to, "b")
	k.check(t, q, event, late)
}
