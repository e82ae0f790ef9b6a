package keeper

import (
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"os"
	"runtime"
	"strings"
	"syscall"

	"golang.org/x/sys/unix"
)

// shimFailure says why a process cannot confine itself before it becomes the program.
func shimFailure(shim []string) error {
	if len(shim) == 0 {
		return errNoShim
	}
	return nil
}

// errNoShim says that the program that runs the keeper cannot become a confined one.
var errNoShim = errors.New("the program has no command for it (host.Main is not called)")

// selfPath is the program that runs here, also after its file was replaced.
func selfPath() string { return "/proc/self/exe" }

// setNoNewPrivs keeps the calling thread, and all that it starts, from gaining privileges.
func setNoNewPrivs() error {
	if err := unix.Prctl(unix.PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0); err != nil {
		return fmt.Errorf("prctl(PR_SET_NO_NEW_PRIVS): %w", err)
	}
	return nil
}

// dropCores keeps this process and all that it starts from writing core dumps, which have secrets of theirs.
func dropCores() error { return syscall.Setrlimit(syscall.RLIMIT_CORE, &syscall.Rlimit{}) }

// A variant is one way to make the namespaces of a process.
type variant struct {
	flags   uintptr
	without []string // what is tried and is not in this way
}

// variants returns the ways in which a process may be started, the best first. Root needs no user namespace where it has its privileges; where it has not, one gives them, as to everybody else.
func variants(c Confine) ([]variant, error) {
	var required, tried uintptr
	add := func(m Mode, flag uintptr) {
		switch m {
		case Require:
			required |= flag
		case Try:
			tried |= flag
		}
	}
	add(c.NoNetwork, unix.CLONE_NEWNET)
	add(c.OwnPIDs, unix.CLONE_NEWPID)
	var all []variant
	ways := func(flags uintptr, without ...string) {
		if flags == 0 {
			all = append(all, variant{0, without})
			return
		}
		if os.Geteuid() == 0 {
			all = append(all, variant{flags, without})
		}
		all = append(all, variant{flags | unix.CLONE_NEWUSER, without})
	}
	ways(required | tried)
	if tried != 0 {
		ways(required, strings.Split(namesOfFlags(tried), ", ")...)
	}
	return all, nil
}

// refusedBy reports whether an error may be of the namespaces, so that another way may do.
func (v variant) refusedBy(err error) bool {
	return v.flags != 0 && (errors.Is(err, syscall.EPERM) || errors.Is(err, syscall.EINVAL) || errors.Is(err, syscall.ENOSYS) || errors.Is(err, syscall.ENOSPC) || errors.Is(err, syscall.EUSERS))
}

func namesOfFlags(flags uintptr) string {
	var names []string
	if flags&unix.CLONE_NEWNET != 0 {
		names = append(names, "network")
	}
	if flags&unix.CLONE_NEWPID != 0 {
		names = append(names, "pids")
	}
	return strings.Join(names, ", ")
}

// namesOf names the namespaces that are required, for an error.
func namesOf(c Confine) string {
	var flags uintptr
	if c.NoNetwork == Require {
		flags |= unix.CLONE_NEWNET
	}
	if c.OwnPIDs == Require {
		flags |= unix.CLONE_NEWPID
	}
	return namesOfFlags(flags)
}

// missing says what a process does without that was started in this way, and why.
func (v variant) missing(why error) []string {
	var all []string
	for _, name := range v.without {
		all = append(all, fmt.Sprintf("%s: the system refuses the namespaces: %v", name, why))
	}
	return all
}

// apply has a child made in this way. It ends with the thread that makes it, which is to say with the keeper.
func (v variant) apply(attr *syscall.SysProcAttr) {
	attr.Pdeathsig = syscall.SIGKILL
	attr.Cloneflags = v.flags
	if v.flags&unix.CLONE_NEWUSER != 0 {
		attr.UidMappings = []syscall.SysProcIDMap{{ContainerID: os.Geteuid(), HostID: os.Geteuid(), Size: 1}}
		attr.GidMappings = []syscall.SysProcIDMap{{ContainerID: os.Getegid(), HostID: os.Getegid(), Size: 1}}
	}
}

// runShim confines this process as it is told by its third file, and becomes the program. It returns only if that fails, having told why.
func runShim() int {
	// What is set below is of this thread, and an exec makes the process of the thread that calls it.
	runtime.LockOSThread()
	status := os.NewFile(shimReportFD, "status")
	syscall.CloseOnExec(shimReportFD)
	report := shimReport{}
	fail := func(confine bool, err error) int {
		_ = json.NewEncoder(status).Encode(shimReport{Error: err.Error(), Confine: confine})
		return 126
	}
	order, err := readOrder()
	if err != nil {
		return fail(false, err)
	}
	if c := order.Confine; c.Files.on() {
		err := errors.Join(setNoNewPrivs(), restrictFiles(c.Files, c.Paths, order.Path))
		if err != nil && c.Files == Require {
			return fail(true, fmt.Errorf("files: %w", err))
		} else if err != nil {
			report.Unenforced = append(report.Unenforced, "files: "+err.Error())
		}
	}
	if c := order.Confine; c.Limits.on() {
		if err := setLimits(c); err != nil && c.Limits == Require {
			return fail(true, fmt.Errorf("limits: %w", err))
		} else if err != nil {
			report.Unenforced = append(report.Unenforced, "limits: "+err.Error())
		}
	}
	if err := json.NewEncoder(status).Encode(report); err != nil {
		return 126
	}
	return fail(false, fmt.Errorf("%s: %w", order.Path, syscall.Exec(order.Path, order.Argv, order.Env)))
}

func readOrder() (shimOrder, error) {
	file := os.NewFile(shimOrderFD, "order")
	defer func() { _ = file.Close() }()
	text, err := io.ReadAll(io.LimitReader(file, 16*maxControl))
	var order shimOrder
	if err == nil {
		err = json.Unmarshal(text, &order)
	}
	if err == nil && (order.Path == "" || len(order.Argv) == 0) {
		err = errors.New("it is started by a keeper alone")
	}
	return order, err
}

// setLimits bounds this process and what it starts. A bound that is above the one there is already changes nothing. That of the address space comes last, since this program reserves more.
func setLimits(c Confine) error {
	for _, limit := range []struct {
		resource int
		most     uint64
	}{{unix.RLIMIT_NOFILE, c.OpenFiles}, {unix.RLIMIT_NPROC, c.Processes}, {unix.RLIMIT_FSIZE, c.FileSize}, {unix.RLIMIT_CPU, c.CPU}, {unix.RLIMIT_AS, c.AddressSpace}} {
		if limit.most == 0 {
			continue
		}
		if limit.resource == unix.RLIMIT_NPROC && os.Getuid() == 0 {
			return errors.New("processes: the system does not bound those of root")
		}
		var now syscall.Rlimit
		if err := syscall.Getrlimit(limit.resource, &now); err != nil {
			return fmt.Errorf("getrlimit: %w", err)
		}
		most := min(limit.most, now.Max)
		if err := syscall.Setrlimit(limit.resource, &syscall.Rlimit{Cur: most, Max: most}); err != nil {
			return fmt.Errorf("setrlimit: %w", err)
		}
	}
	return nil
}
