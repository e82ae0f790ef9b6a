//go:build linux

package kubelet

import (
	"errors"
	"fmt"
	"io"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"syscall"

	core "k8s.io/api/core/v1"
)

// imageUser is the user of images, whom a pod runs as that names none.
const imageUser = 65532

// programPath is where the program of an image lies in its root.
const programPath = "/troupe"

// box is the root directory of a pod, with what its image and its volumes put there.
type box struct {
	root        string
	user, group uint32
	groups      []uint32
	environment []string
	claims      map[string]string // directories of claims, by where they are in the root: they outlive it
}

// makeRoot makes the root of a pod.
func (p *pod) makeRoot() (b *box, err error) {
	b = &box{root: filepath.Join(p.cluster.opts.Dir, "pods", p.name), user: imageUser, group: imageUser, claims: map[string]string{}}
	if err := os.MkdirAll(b.root, 0o755); err != nil {
		return nil, err
	}
	defer func() {
		if err != nil {
			b.remove()
		}
	}()
	if s := p.spec().SecurityContext; s != nil {
		if s.RunAsUser != nil {
			b.user, b.group = uint32(*s.RunAsUser), uint32(*s.RunAsUser)
		}
		if s.RunAsGroup != nil {
			b.group = uint32(*s.RunAsGroup)
		}
		if s.FSGroup != nil {
			b.groups = []uint32{uint32(*s.FSGroup)}
		}
	}
	name := p.container().Image
	image, known := p.cluster.opts.Images[name]
	if !known {
		return nil, fmt.Errorf("there is no image %s", name)
	}
	if err := b.install(image.Program); err != nil {
		return nil, err
	}
	own, err := p.environment()
	if err != nil {
		return nil, err
	}
	b.environment = append(append([]string{}, image.Environment...), own...) // of two the last one counts
	for _, m := range p.container().VolumeMounts {
		if err := p.mount(b, m); err != nil {
			return nil, fmt.Errorf("the volume %s: %w", m.Name, err)
		}
	}
	return b, nil
}

// library matches what ldd says of a library that has a path.
var library = regexp.MustCompile(`(?m)(/\S+) \(0x`)

// install puts a program into the root, and what it is linked with.
func (b *box) install(program string) error {
	if err := place(program, filepath.Join(b.root, programPath)); err != nil {
		return err
	}
	libraries, _ := exec.Command("ldd", program).Output() // it fails for a program that needs none
	for _, found := range library.FindAllStringSubmatch(string(libraries), -1) {
		if err := place(found[1], filepath.Join(b.root, found[1])); err != nil {
			return err
		}
	}
	return nil
}

// place has a file be at another path too, as a link where that can be.
func place(from, to string) error {
	if err := os.MkdirAll(filepath.Dir(to), 0o755); err != nil {
		return err
	}
	from, err := filepath.EvalSymlinks(from)
	if err != nil {
		return err
	}
	if err := os.Link(from, to); err == nil || errors.Is(err, os.ErrExist) {
		return nil
	}
	in, err := os.Open(from)
	if err != nil {
		return err
	}
	defer func() { _ = in.Close() }()
	out, err := os.OpenFile(to, os.O_CREATE|os.O_WRONLY|os.O_EXCL, 0o755)
	if err != nil {
		return err
	}
	_, err = io.Copy(out, in)
	return errors.Join(err, out.Close())
}

// mount puts the files of a volume where the container has it.
func (p *pod) mount(b *box, m core.VolumeMount) error {
	at := filepath.Join(b.root, m.MountPath)
	files := map[string][]byte{}
	switch v, found := p.volume(m.Name); {
	case m.Name == p.workload.claim && p.workload.claim != "":
		return b.mountClaim(filepath.Join(p.cluster.opts.Dir, "claims", m.Name+"-"+p.name), at)
	case !found:
		return errors.New("there is none")
	case v.PersistentVolumeClaim != nil:
		return b.mountClaim(filepath.Join(p.cluster.opts.Dir, "claims", v.PersistentVolumeClaim.ClaimName), at)
	case v.EmptyDir != nil:
		return b.makeVolume(at)
	case v.ConfigMap != nil:
		data, has := p.workload.configMaps[v.ConfigMap.Name]
		if !has {
			return fmt.Errorf("there is no ConfigMap %s", v.ConfigMap.Name)
		}
		for name, text := range data {
			files[name] = []byte(text)
		}
	case v.Secret != nil:
		data, has := p.cluster.opts.Secrets[v.Secret.SecretName]
		if !has {
			return fmt.Errorf("there is no Secret %s", v.Secret.SecretName)
		}
		files = data
	default:
		return errors.New("its kind is not played")
	}
	if err := os.MkdirAll(at, 0o755); err != nil {
		return err
	}
	for name, data := range files {
		if err := os.WriteFile(filepath.Join(at, name), data, 0o644); err != nil {
			return err
		}
	}
	return nil
}

func (p *pod) volume(name string) (core.Volume, bool) {
	for _, v := range p.spec().Volumes {
		if v.Name == name {
			return v, true
		}
	}
	return core.Volume{}, false
}

// makeVolume makes a directory as an empty volume is: open to all, and its group that of the pod, whose new files belong to that group.
func (b *box) makeVolume(at string) error {
	if err := os.MkdirAll(at, 0o755); err != nil {
		return err
	}
	for _, group := range b.groups {
		if err := os.Chown(at, 0, int(group)); err != nil {
			return err
		}
	}
	return os.Chmod(at, os.ModeSetgid|0o777)
}

// mountClaim moves the directory of a claim into the root, until remove moves it back.
func (b *box) mountClaim(claim, at string) error {
	if err := os.MkdirAll(filepath.Dir(claim), 0o755); err != nil {
		return err
	}
	if !exists(claim) {
		if err := b.makeVolume(claim); err != nil {
			return err
		}
	}
	if err := os.MkdirAll(filepath.Dir(at), 0o755); err != nil {
		return err
	}
	b.claims[at] = claim
	return os.Rename(claim, at)
}

// remove drops the root. Claims stay.
func (b *box) remove() {
	for at, claim := range b.claims {
		if err := os.Rename(at, claim); err != nil && !errors.Is(err, os.ErrNotExist) {
			return // what is left shows what went wrong
		}
	}
	_ = os.RemoveAll(b.root)
}

// command is the program of the image in its root, as the pod's user.
func (b *box) command(args ...string) *exec.Cmd {
	cmd := exec.Command(programPath, args...)
	cmd.Dir, cmd.Env = "/", b.environment // never nil, which would be this process's
	cmd.SysProcAttr = &syscall.SysProcAttr{Chroot: b.root, Credential: &syscall.Credential{Uid: b.user, Gid: b.group, Groups: b.groups}}
	return cmd
}

// exists reports whether a path is there.
func exists(path string) bool {
	_, err := os.Stat(path)
	return err == nil
}
