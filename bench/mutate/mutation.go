package main

import (
	"bytes"
	"fmt"
	"os"
	"path"
	"path/filepath"
)

// kind is what a mutation breaks.
type kind string

const (
	guard       kind = "guard"       // who may do it, and when
	merge       kind = "merge"       // what two records, or two attempts, make together
	limit       kind = "limit"       // how much, how many
	seal        kind = "seal"        // what clients carry and must not change
	expiry      kind = "expiry"      // how long
	negotiation kind = "negotiation" // which revision, and what it has
	validation  kind = "validation"  // what is refused as malformed
)

// mutation is a change of one place in one file.
type mutation struct {
	name     string
	kind     kind
	file     string // from the root of the repository
	old, new string // old is in the file once
	pkg      string // whose tests have to catch it, as a folder; "" is that of the file
	run      string // the tests of it that are run, as of go test -run; "" is all
}

// tests is the folder of the tests that have to catch the mutation.
func (m *mutation) tests() string {
	if m.pkg != "" {
		return m.pkg
	}
	return path.Dir(m.file)
}

// apply returns the file with the mutation made, root being the repository.
func (m *mutation) apply(root string) ([]byte, error) {
	text, err := os.ReadFile(filepath.Join(root, filepath.FromSlash(m.file)))
	if err != nil {
		return nil, err
	}
	if n := bytes.Count(text, []byte(m.old)); n != 1 {
		return nil, fmt.Errorf("%s has the text %d times, want once", m.file, n)
	}
	return bytes.Replace(text, []byte(m.old), []byte(m.new), 1), nil
}
