package keeper

import (
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"unsafe"

	"golang.org/x/sys/unix"
)

// SystemPaths are what a process whose files are restricted may use beside what it is allowed: programs and libraries, settings of the system, and what lies in /proc, to read; the devices that
// have nothing, to write. Those that are not there are left out. In /proc it sees of other processes only those that are restricted with it.
func SystemPaths() []Allowance {
	all := []Allowance{}
	for _, path := range []string{"/bin", "/sbin", "/usr", "/lib", "/lib32", "/lib64", "/libx32", "/etc", "/nix/store", "/proc", "/sys/devices/system/cpu", "/sys/fs/cgroup"} {
		all = append(all, Allowance{Path: path})
	}
	for _, path := range []string{"/dev/null", "/dev/zero", "/dev/full", "/dev/random", "/dev/urandom", "/dev/tty"} {
		all = append(all, Allowance{Path: path, Write: true})
	}
	return all
}

// Rights of Landlock.
const (
	readRights = unix.LANDLOCK_ACCESS_FS_EXECUTE | unix.LANDLOCK_ACCESS_FS_READ_FILE | unix.LANDLOCK_ACCESS_FS_READ_DIR
	fileRights = unix.LANDLOCK_ACCESS_FS_EXECUTE | unix.LANDLOCK_ACCESS_FS_READ_FILE | unix.LANDLOCK_ACCESS_FS_WRITE_FILE | unix.LANDLOCK_ACCESS_FS_TRUNCATE | unix.LANDLOCK_ACCESS_FS_IOCTL_DEV
)

// handledRights are the rights that a version of Landlock can withhold.
func handledRights(version int) uint64 {
	rights := uint64(unix.LANDLOCK_ACCESS_FS_MAKE_SYM<<1 - 1) // version 1
	if version >= 2 {
		rights |= unix.LANDLOCK_ACCESS_FS_REFER
	}
	if version >= 3 {
		rights |= unix.LANDLOCK_ACCESS_FS_TRUNCATE
	}
	if version >= 5 {
		rights |= unix.LANDLOCK_ACCESS_FS_IOCTL_DEV
	}
	return rights
}

// oldestLandlock is the version without which Require fails: before it a file that may not be written could be emptied.
const oldestLandlock = 3

// restrictFiles leaves this thread, and what it becomes, the given paths and those of the system. It uses the three system calls itself: a library for them would restrict all
// threads of a program, which is of no use before an exec, and is a dependency more.
func restrictFiles(mode Mode, allowed []Allowance, program string) error {
	version, _, errno := unix.Syscall(unix.SYS_LANDLOCK_CREATE_RULESET, 0, 0, unix.LANDLOCK_CREATE_RULESET_VERSION)
	if errno != 0 {
		return fmt.Errorf("the system has no Landlock: landlock_create_ruleset: %w", errno)
	}
	if int(version) < oldestLandlock && mode == Require {
		return fmt.Errorf("the system has version %d of Landlock, and %d is required (Linux 6.2)", version, oldestLandlock)
	}
	rights := handledRights(int(version))
	attr := unix.LandlockRulesetAttr{Handled_access_fs: rights}
	fd, _, errno := unix.Syscall(unix.SYS_LANDLOCK_CREATE_RULESET, uintptr(unsafe.Pointer(&attr)), unsafe.Sizeof(attr.Handled_access_fs), 0)
	if errno != 0 {
		return fmt.Errorf("landlock_create_ruleset: %w", errno)
	}
	ruleset := int(fd)
	defer func() { _ = unix.Close(ruleset) }()
	for _, a := range SystemPaths() {
		if err := allowPath(ruleset, a, rights); err != nil && !errors.Is(err, os.ErrNotExist) && !errors.Is(err, os.ErrPermission) {
			return err
		}
	}
	real, err := filepath.EvalSymlinks(program)
	if err != nil {
		return err
	}
	for _, a := range append([]Allowance{{Path: real}}, allowed...) {
		if err := allowPath(ruleset, a, rights); err != nil {
			return err
		}
	}
	if _, _, errno := unix.Syscall(unix.SYS_LANDLOCK_RESTRICT_SELF, fd, 0, 0); errno != 0 {
		return fmt.Errorf("landlock_restrict_self: %w", errno)
	}
	return nil
}

// allowPath adds what lies below a path.
func allowPath(ruleset int, a Allowance, rights uint64) error {
	fd, err := unix.Open(a.Path, unix.O_PATH|unix.O_CLOEXEC, 0)
	if err != nil {
		return fmt.Errorf("%s: %w", a.Path, err)
	}
	defer func() { _ = unix.Close(fd) }()
	var info unix.Stat_t
	if err := unix.Fstat(fd, &info); err != nil {
		return fmt.Errorf("%s: %w", a.Path, err)
	}
	allowed := rights
	if !a.Write {
		allowed &= readRights
	}
	if info.Mode&unix.S_IFMT != unix.S_IFDIR {
		allowed &= fileRights
	}
	beneath := unix.LandlockPathBeneathAttr{Allowed_access: allowed, Parent_fd: int32(fd)}
	if _, _, errno := unix.Syscall6(unix.SYS_LANDLOCK_ADD_RULE, uintptr(ruleset), unix.LANDLOCK_RULE_PATH_BENEATH, uintptr(unsafe.Pointer(&beneath)), 0, 0, 0); errno != 0 {
		return fmt.Errorf("%s: landlock_add_rule: %w", a.Path, errno)
	}
	return nil
}
