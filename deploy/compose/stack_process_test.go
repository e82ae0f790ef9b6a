//go:build linux

package compose

import (
	"bytes"
	"fmt"
	"io"
	"io/fs"
	"maps"
	"net"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"sync"
	"syscall"
	"testing"
	"time"

	"github.com/compose-spec/compose-go/v2/types"
)

// patience is how long anything may take before it counts as lost.
const patience = 60 * time.Second

// images say what of this machine stands for an image: a program, what it is run with where a file has no command, and who runs
// it where a file does not say.
var images = map[string]struct {
	program string
	command []string
	uid     uint32
}{
	troupeImage:       {program: "troupe"},
	"nats":            {program: "nats-server"},
	"haproxy":         {program: "haproxy", command: []string{"-db", "-f", "/usr/local/etc/haproxy/haproxy.cfg"}, uid: 99},
	"prom/prometheus": {program: "prometheus", uid: 65534},
}

// stack is the services of a file as processes: each at an address of the loopback network of its own, where it listens on what its
// container would, with directories for its volumes and with names that become addresses.
type stack struct {
	t        *testing.T
	project  *types.Project
	dir      string // of volumes, and of files with addresses in place of names
	programs map[string]string
	at       map[string]string // addresses by service
	running  map[string]*process
}

// process is a service that runs.
type process struct {
	cmd    *exec.Cmd
	log    logged
	exited chan struct{} // closed once it has ended
	err    error         // then
}

// logged is what a process has said.
type logged struct {
	mu   sync.Mutex // guards text
	text bytes.Buffer
}

func (l *logged) Write(p []byte) (int, error) {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.text.Write(p)
}

// String is the end of it.
func (l *logged) String() string {
	l.mu.Lock()
	defer l.mu.Unlock()
	text := l.text.String()
	return text[max(0, len(text)-3000):]
}

// builtIn is where builtPrograms has built, "" if it has not.
var builtIn string

// builtPrograms builds troupe and nats-server, once.
var builtPrograms = sync.OnceValues(func() (map[string]string, error) {
	dir, err := os.MkdirTemp("", "troupe-compose-")
	if err != nil {
		return nil, err
	}
	builtIn = dir
	programs := make(map[string]string)
	for name, build := range map[string][]string{
		"troupe":      {"-C", "../..", "build", "-o", filepath.Join(dir, "troupe"), "./cmd/troupe"},
		"nats-server": {"-C", "../..", "build", "-o", filepath.Join(dir, "nats-server"), "github.com/nats-io/nats-server/v2"},
	} {
		if out, err := exec.Command("go", build...).CombinedOutput(); err != nil {
			return nil, fmt.Errorf("build %s: %w\n%s", name, err, out)
		}
		programs[name] = filepath.Join(dir, name)
	}
	return programs, os.Chmod(dir, 0o755)
})

func TestMain(m *testing.M) {
	code := m.Run()
	if builtIn != "" {
		_ = os.RemoveAll(builtIn)
	}
	os.Exit(code)
}

// newStack makes the services of a file. subnet tells those of several tests apart.
func newStack(t *testing.T, subnet int, project *types.Project) *stack {
	t.Helper()
	built, err := builtPrograms()
	if err != nil {
		t.Fatal(err)
	}
	dir, err := os.MkdirTemp("", "troupe-compose-") // whose users are others
	if err == nil {
		err = os.Chmod(dir, 0o755)
	}
	if err != nil {
		t.Fatal(err)
	}
	s := &stack{t: t, project: project, dir: dir, programs: maps.Clone(built), at: make(map[string]string), running: make(map[string]*process)}
	t.Cleanup(func() {
		for _, p := range s.running {
			_ = p.cmd.Process.Kill()
			<-p.exited
		}
		_ = os.RemoveAll(dir)
	})
	for i, name := range slices.Sorted(maps.Keys(project.Services)) {
		s.at[name] = fmt.Sprintf("127.0.%d.%d", subnet, 10+i)
	}
	for _, image := range images {
		if s.programs[image.program] != "" {
			continue
		}
		path, err := exec.LookPath(image.program)
		if err != nil {
			path, err = exec.LookPath("/usr/sbin/" + image.program)
		}
		if err == nil {
			s.programs[image.program] = path
		}
	}
	return s
}

// imageOf is the name of a service's image.
func (s *stack) imageOf(name string) string {
	image, _, _ := strings.Cut(s.project.Services[name].Image, ":")
	return image
}

// missing is the program of a service that this machine does not have, "" if it has it.
func (s *stack) missing(name string) string {
	if image := images[s.imageOf(name)]; s.programs[image.program] == "" {
		return s.imageOf(name)
	}
	return ""
}

// userOf is who runs a service.
func (s *stack) userOf(name string) uint32 {
	uid, _, _ := strings.Cut(s.project.Services[name].User, ":")
	if n, err := strconv.ParseUint(uid, 10, 32); err == nil {
		return uint32(n)
	}
	return images[s.imageOf(name)].uid
}

// everywhere finds the addresses that a container has to itself.
var everywhere = regexp.MustCompile(`\b(0\.0\.0\.0|127\.0\.0\.1)\b`)

// hosts finds the names of services before ports, and in lists behind others: elsewhere one is the name of a node, which stays.
func (s *stack) hosts() *regexp.Regexp {
	names := "(" + strings.Join(slices.Sorted(maps.Keys(s.at)), "|") + ")"
	return regexp.MustCompile(`\b` + names + `:\d|,` + names + `\b`)
}

// localize returns a text as a service of this machine needs it: addresses for names, and directories for mounts.
func (s *stack) localize(name, text string, mounts map[string]string) string {
	text = s.hosts().ReplaceAllStringFunc(text, func(found string) string {
		if host, listed := strings.CutPrefix(found, ","); listed {
			return "," + s.at[host]
		}
		host, digit, _ := strings.Cut(found, ":")
		return s.at[host] + ":" + digit
	})
	text = everywhere.ReplaceAllString(text, s.at[name])
	for target, dir := range mounts {
		whole := regexp.MustCompile(`(^|[=:,\s])` + regexp.QuoteMeta(target) + `(/|[,\s]|$)`)
		text = whole.ReplaceAllString(text, "${1}"+dir+"${2}")
	}
	return text
}

// mount makes the volumes of a service, and returns where its targets are. What is in memory is empty at each start.
func (s *stack) mount(name string) map[string]string {
	s.t.Helper()
	service, mounts := s.project.Services[name], make(map[string]string)
	own := func(dir string) {
		if err := os.MkdirAll(dir, 0o700); err != nil {
			s.t.Fatal(err)
		}
		if os.Geteuid() == 0 {
			if err := os.Chown(dir, int(s.userOf(name)), int(s.userOf(name))); err != nil {
				s.t.Fatal(err)
			}
		}
	}
	for _, tmpfs := range service.Tmpfs {
		target, _, _ := strings.Cut(tmpfs, ":")
		mounts[target] = filepath.Join(s.dir, name+strings.ReplaceAll(target, "/", "-"))
		_ = os.RemoveAll(mounts[target])
		own(mounts[target])
	}
	for _, v := range service.Volumes {
		if mounts[v.Target] = filepath.Join(s.dir, v.Source); v.Type == types.VolumeTypeVolume {
			own(mounts[v.Target])
			continue
		}
		if !v.ReadOnly {
			s.t.Errorf("%s may write %s", name, v.Source)
		}
		mounts[v.Target] = filepath.Join(s.dir, name+"-"+filepath.Base(v.Target))
	}
	for _, v := range service.Volumes {
		if v.Type == types.VolumeTypeBind {
			s.copyLocalized(name, v.Source, mounts[v.Target], mounts)
		}
	}
	return mounts
}

// copyLocalized copies a file or a directory, with addresses for names.
func (s *stack) copyLocalized(name, from, to string, mounts map[string]string) {
	s.t.Helper()
	err := filepath.WalkDir(from, func(path string, d fs.DirEntry, err error) error {
		if err != nil {
			return err
		}
		target := to + strings.TrimPrefix(path, from)
		if d.IsDir() {
			return os.MkdirAll(target, 0o755)
		}
		text, err := os.ReadFile(path)
		if err != nil {
			return err
		}
		return os.WriteFile(target, []byte(s.localize(name, string(text), mounts)), 0o644)
	})
	if err != nil {
		s.t.Fatal(err)
	}
}

// command is a program with the environment and the user of a service.
func (s *stack) command(name, program string, args []string, mounts map[string]string) *exec.Cmd {
	bin := s.programs[program]
	if bin == "" {
		bin = program
	}
	cmd := exec.Command(bin)
	for _, arg := range args {
		cmd.Args = append(cmd.Args, s.localize(name, arg, mounts))
	}
	cmd.Dir, cmd.Env = "/", []string{"PATH=" + os.Getenv("PATH")}
	for variable, value := range s.project.Services[name].Environment {
		if value != nil {
			cmd.Env = append(cmd.Env, variable+"="+s.localize(name, *value, mounts))
		}
	}
	if uid := s.userOf(name); os.Geteuid() == 0 {
		cmd.SysProcAttr = &syscall.SysProcAttr{Credential: &syscall.Credential{Uid: uid, Gid: uid}}
	}
	return cmd
}

// start starts a service whose dependencies are there.
func (s *stack) start(name string) {
	s.t.Helper()
	image, service := images[s.imageOf(name)], s.project.Services[name]
	args := []string(service.Command)
	if len(args) == 0 {
		args = image.command
	}
	p := &process{exited: make(chan struct{})}
	p.cmd = s.command(name, image.program, args, s.mount(name))
	p.cmd.Stdout, p.cmd.Stderr = &p.log, &p.log
	if err := p.cmd.Start(); err != nil {
		s.t.Fatal(err)
	}
	go func() {
		p.err = p.cmd.Wait()
		close(p.exited)
	}()
	s.running[name] = p
}

// up starts a service and what it depends on, and waits until it is healthy, or takes connections where nothing asks for that.
func (s *stack) up(name string) {
	s.t.Helper()
	if s.running[name] != nil {
		return
	}
	dependencies := slices.Sorted(maps.Keys(s.project.Services[name].DependsOn))
	for _, d := range dependencies {
		if s.running[d] == nil && len(s.project.Services[d].DependsOn) == 0 { // at the same time: a cluster is healthy once it is whole
			s.start(d)
		}
	}
	for _, d := range dependencies {
		s.up(d)
		s.untilHealthy(d)
	}
	s.start(name)
	s.untilHealthy(name)
}

func (s *stack) untilHealthy(name string) {
	s.t.Helper()
	s.until(name+" is healthy", func() bool {
		select {
		case <-s.running[name].exited:
			s.t.Fatalf("%s has ended: %v\n%s", name, s.running[name].err, &s.running[name].log)
		default:
		}
		return s.isHealthy(name)
	})
}

// isHealthy runs the health check of a service, as its container would.
func (s *stack) isHealthy(name string) bool {
	s.t.Helper()
	check := s.project.Services[name].HealthCheck
	if check == nil {
		for _, port := range s.project.Services[name].Ports {
			conn, err := net.Dial("tcp", net.JoinHostPort(s.at[name], fmt.Sprint(port.Target)))
			if err != nil {
				return false
			}
			_ = conn.Close()
		}
		return true
	}
	if check.Test[0] != "CMD" {
		s.t.Fatalf("the check of %s needs a shell: %v", name, check.Test)
	}
	_, err := s.exec(name, check.Test[1:]...)
	return err == nil
}

// exec runs a command beside a service, as docker compose exec does.
func (s *stack) exec(name string, args ...string) (string, error) {
	mounts := make(map[string]string)
	for _, tmpfs := range s.project.Services[name].Tmpfs {
		target, _, _ := strings.Cut(tmpfs, ":")
		mounts[target] = filepath.Join(s.dir, name+strings.ReplaceAll(target, "/", "-"))
	}
	for _, v := range s.project.Services[name].Volumes {
		if v.Type == types.VolumeTypeVolume {
			mounts[v.Target] = filepath.Join(s.dir, v.Source)
		}
	}
	var errs bytes.Buffer
	cmd := s.command(name, args[0], args[1:], mounts)
	cmd.Stderr = &errs
	out, err := cmd.Output()
	if err != nil {
		err = fmt.Errorf("%v: %w: %s", args, err, &errs)
	}
	return string(out), err
}

func (s *stack) until(what string, condition func() bool) {
	s.t.Helper()
	for end := time.Now().Add(patience); !condition(); time.Sleep(50 * time.Millisecond) {
		if time.Now().After(end) {
			for name, p := range s.running {
				s.t.Logf("%s:\n%s", name, &p.log)
			}
			s.t.Fatalf("not within %v: %s", patience, what)
		}
	}
}

// publish makes the only port of a service reachable where its file says, as docker does, and returns where that is.
func (s *stack) publish(name string) (address string) {
	s.t.Helper()
	port := s.project.Services[name].Ports[0]
	address = net.JoinHostPort(port.HostIP, port.Published)
	ln, err := net.Listen("tcp", address)
	if err != nil {
		s.t.Fatal(err)
	}
	s.t.Cleanup(func() { _ = ln.Close() })
	go func() {
		for {
			from, err := ln.Accept()
			if err != nil {
				return
			}
			go func() {
				defer from.Close()
				to, err := net.Dial("tcp", net.JoinHostPort(s.at[name], fmt.Sprint(port.Target)))
				if err != nil {
					return
				}
				defer to.Close()
				go func() { _, _ = io.Copy(to, from); _ = to.Close() }()
				_, _ = io.Copy(from, to)
			}()
		}
	}()
	return address
}

// kill ends a service at once.
func (s *stack) kill(name string) {
	s.t.Helper()
	p := s.running[name]
	if err := p.cmd.Process.Kill(); err != nil {
		s.t.Fatal(err)
	}
	<-p.exited
	delete(s.running, name)
}

// stop ends services as docker compose does: SIGTERM, and SIGKILL behind the time that a file gives. No one may need that.
func (s *stack) stop(names ...string) {
	s.t.Helper()
	for _, name := range names {
		if err := s.running[name].cmd.Process.Signal(syscall.SIGTERM); err != nil {
			s.t.Fatal(err)
		}
	}
	for _, name := range names {
		p := s.running[name]
		select {
		case <-p.exited:
			if s.imageOf(name) == troupeImage && p.err != nil {
				s.t.Errorf("%s ended with %v:\n%s", name, p.err, &p.log)
			}
		case <-time.After(s.graceOf(name)):
			s.t.Errorf("%s does not end within its time:\n%s", name, &p.log)
			_ = p.cmd.Process.Kill()
			<-p.exited
		}
		delete(s.running, name)
	}
}

// graceOf is how long a service may take to end.
func (s *stack) graceOf(name string) time.Duration {
	if given := s.project.Services[name].StopGracePeriod; given != nil {
		return time.Duration(*given)
	}
	return 10 * time.Second // as docker has it
}

// freeAddress is one of this machine that nobody listens on.
func freeAddress(t *testing.T) string {
	t.Helper()
	ln, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	defer func() { _ = ln.Close() }()
	return ln.Addr().String()
}
