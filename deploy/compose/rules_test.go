package compose

import (
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/compose-spec/compose-go/v2/cli"
	"github.com/compose-spec/compose-go/v2/types"
)

const troupeImage = "ghcr.io/troupe-run/troupe"

// password is that of everything in a test.
const password = "not-the-one-of-any-service"

// readProject reads the file of a directory, with variables in place of those of .env.
func readProject(t *testing.T, dir string, variables ...string) (*types.Project, error) {
	t.Helper()
	o, err := cli.NewProjectOptions([]string{filepath.Join(dir, "compose.yaml")}, cli.WithEnv(variables), cli.WithResolvedPaths(true))
	if err != nil {
		t.Fatal(err)
	}
	return o.LoadProject(t.Context())
}

// mustRead is readProject for a file that can be read.
func mustRead(t *testing.T, dir string, variables ...string) *types.Project {
	t.Helper()
	p, err := readProject(t, dir, append([]string{"NATS_PASSWORD=" + password, "GRAFANA_PASSWORD=" + password}, variables...)...)
	if err != nil {
		t.Fatal(err)
	}
	return p
}

// TestServicesAreContained holds each service of each file to what contains it: nothing of the image can be written, no
// privilege can be had, what is published is so to this machine alone, and nothing is built or of no version.
func TestServicesAreContained(t *testing.T) {
	for _, dir := range []string{"one", "fleet"} {
		for name, s := range mustRead(t, dir).Services {
			t.Run(dir+"/"+name, func(t *testing.T) {
				if !s.ReadOnly || !slices.Equal(s.CapDrop, []string{"ALL"}) || !slices.Contains(s.SecurityOpt, "no-new-privileges:true") || s.Privileged || len(s.CapAdd) > 0 {
					t.Errorf("read_only %v, cap_drop %v, cap_add %v, security_opt %v, privileged %v", s.ReadOnly, s.CapDrop, s.CapAdd, s.SecurityOpt, s.Privileged)
				}
				if s.Restart != "unless-stopped" {
					t.Errorf("restart is %q", s.Restart)
				}
				image, tag, _ := strings.Cut(s.Image, ":")
				if s.Build != nil || tag == "" || tag == "latest" {
					t.Errorf("its image is %s, and build is %v", s.Image, s.Build)
				}
				if image == troupeImage && s.User != "65532:65532" {
					t.Errorf("it is run by %q", s.User)
				}
				for _, port := range s.Ports {
					if port.HostIP != "127.0.0.1" {
						t.Errorf("%s is published at %q", port.Published, port.HostIP)
					}
				}
			})
		}
	}
}

// TestSecretsAreElsewhere reads the fleet without its passwords, which must not do, and looks for them where they were not set.
func TestSecretsAreElsewhere(t *testing.T) {
	for _, missing := range []string{"NATS_PASSWORD", "GRAFANA_PASSWORD"} {
		variables := slices.DeleteFunc([]string{"NATS_PASSWORD=" + password, "GRAFANA_PASSWORD=" + password}, func(v string) bool { return strings.HasPrefix(v, missing) })
		if _, err := readProject(t, "fleet", variables...); err == nil || !strings.Contains(err.Error(), "set it in .env") {
			t.Errorf("without %s: %v", missing, err)
		}
	}
	for _, dir := range []string{"one", "fleet"} {
		for name, s := range mustRead(t, dir).Services {
			for variable, value := range s.Environment {
				if strings.Contains(variable, "PASSWORD") && (value == nil || *value != password) {
					t.Errorf("%s/%s has a password of its own in %s", dir, name, variable)
				}
			}
		}
	}
}
