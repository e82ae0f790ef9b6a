package hostfile

import (
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"reflect"

	"github.com/troupe-run/troupe/host"
	"github.com/troupe-run/troupe/mcp"
)

// Digest is the same for two configurations of which an instance cannot tell which one it runs with: it is of the target,
// and of what the options say of the process, the connection and the roots, with the values of secrets. Who shares an
// instance, how many there are and what its items are called make no difference. It stays the same in later releases.
//
// Options.EnvFile does not count: Env must have its variables. Of a server of this process it is the name. Whoever sees a digest could try values of a short secret.
func Digest(t host.Target, o host.Options) string {
	name, args, _ := t.Command()
	url, _ := t.URL()
	serve, _, _ := t.Serve()
	o = o.WithDefaults()
	c := o.Confinement
	c.Rlimits.Enforce, c.Files.Enforce, c.Cgroup.Enforce = emptyIfOff(c.Rlimits.Enforce), emptyIfOff(c.Files.Enforce), emptyIfOff(c.Cgroup.Enforce)
	data, err := json.Marshal(digested{
		Command: name, Args: args, Env: o.Env, Dir: o.Dir, URL: url, Serve: serve, Transport: o.Transport, Headers: o.Headers, PassHeaders: o.PassHeaders, Era: o.Era,
		ForwardRoots: o.Roots.Forward, Roots: o.Roots.List,
		Rlimits: nonZeroFields(c.Rlimits), NoNewPrivs: emptyIfOff(c.NoNewPrivs), Files: nonZeroFields(c.Files), NoNetwork: emptyIfOff(c.NoNetwork), OwnPIDs: emptyIfOff(c.OwnPIDs), Cgroup: nonZeroFields(c.Cgroup),
	})
	if err != nil {
		panic(err) // there are texts and numbers alone; Check lets no other number pass
	}
	sum := sha256.Sum256(append([]byte("backend 1\n"), data...))
	return hex.EncodeToString(sum[:16])
}

// digested has what counts. A new field must be left out while it has its zero value.
type digested struct {
	Command      string            `json:"command,omitempty"`
	Args         []string          `json:"args,omitempty"`
	Env          map[string]string `json:"env,omitempty"`
	Dir          string            `json:"dir,omitempty"`
	URL          string            `json:"url,omitempty"`
	Serve        string            `json:"serve,omitempty"`
	Transport    host.Transport    `json:"transport,omitempty"`
	Headers      map[string]string `json:"headers,omitempty"`
	PassHeaders  []string          `json:"passHeaders,omitempty"`
	Era          host.Era          `json:"era,omitempty"`
	ForwardRoots bool              `json:"forwardRoots,omitempty"`
	Roots        []mcp.Root        `json:"roots,omitempty"`
	Rlimits      map[string]any    `json:"rlimits,omitempty"`
	NoNewPrivs   host.Enforce      `json:"noNewPrivs,omitempty"`
	Files        map[string]any    `json:"files,omitempty"`
	NoNetwork    host.Enforce      `json:"noNetwork,omitempty"`
	OwnPIDs      host.Enforce      `json:"ownPIDs,omitempty"`
	Cgroup       map[string]any    `json:"cgroup,omitempty"`
}

// nonZeroFields has the fields of a struct that are not zero.
func nonZeroFields(of any) map[string]any {
	fields := make(map[string]any)
	for f, v := range reflect.ValueOf(of).Fields() {
		if !v.IsZero() {
			fields[f.Name] = v.Interface()
		}
	}
	return fields
}

func emptyIfOff(e host.Enforce) host.Enforce {
	if e == host.Off {
		return ""
	}
	return e
}

// Digest is that of the backend.
func (b Backend) Digest() string { return Digest(b.Target, b.Options) }

// sameOptions reports whether two backends with the same digest are the same in everything else.
func sameOptions(a, b Backend) bool {
	x, y := a.Options.WithDefaults(), b.Options.WithDefaults()
	x.EnvFile, y.EnvFile = "", ""
	return reflect.DeepEqual(x, y)
}
