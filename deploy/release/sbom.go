package main

import (
	"bytes"
	"crypto/sha256"
	"encoding/base64"
	"encoding/hex"
	"encoding/json"
	"fmt"
	"slices"
	"strings"
	"time"
)

// The parts of CycloneDX 1.6 (ecma-international.org, ECMA-424) that a bill of materials has here.
type (
	bill struct {
		Format       string       `json:"bomFormat"`
		Spec         string       `json:"specVersion"`
		Serial       string       `json:"serialNumber"`
		Version      int          `json:"version"`
		Metadata     billMetadata `json:"metadata"`
		Components   []component  `json:"components"`
		Compositions []assembly   `json:"compositions"`
	}
	billMetadata struct {
		Time       string     `json:"timestamp"`
		Component  component  `json:"component"`
		Properties []property `json:"properties"`
	}
	component struct {
		Type     string    `json:"type"`
		Ref      string    `json:"bom-ref"`
		Name     string    `json:"name"`
		Version  string    `json:"version"`
		Hashes   []hash    `json:"hashes,omitempty"`
		Licences []licence `json:"licenses,omitempty"`
		URL      string    `json:"purl"`
	}
	hash struct {
		Algorithm string `json:"alg"`
		Content   string `json:"content"`
	}
	// licence is one by its SPDX name, or several of which each counts for a part.
	licence struct {
		One        *oneLicence `json:"license,omitempty"`
		Expression string      `json:"expression,omitempty"`
	}
	oneLicence struct {
		ID string `json:"id"`
	}
	property struct {
		Name  string `json:"name"`
		Value string `json:"value"`
	}
	assembly struct {
		Aggregate  string   `json:"aggregate"`
		Assemblies []string `json:"assemblies"`
	}
)

// billOfMaterials lists what `go version -m` lists of a program: its module, the modules that it is linked with, with their sums, and the
// release of Go, whose standard library it has.
func billOfMaterials(p program, l licences, binary []byte, at time.Time) ([]byte, error) {
	sum := sha256.Sum256(binary)
	own := component{
		Type: "application", Ref: packageURL(p.info.Main.Path, p.version), Name: p.info.Main.Path, Version: p.version, URL: packageURL(p.info.Main.Path, p.version),
		Hashes: []hash{{"SHA-256", hex.EncodeToString(sum[:])}}, Licences: licencesOf("Apache-2.0"),
	}
	release := "v" + strings.TrimPrefix(p.info.GoVersion, "go")
	b := bill{
		Format: "CycloneDX", Spec: "1.6", Serial: serialOf(sum), Version: 1,
		Metadata:     billMetadata{Time: at.Format(time.RFC3339), Component: own},
		Components:   []component{{Type: "library", Ref: packageURL("std", release), Name: "std", Version: release, URL: packageURL("std", release), Licences: licencesOf("BSD-3-Clause")}},
		Compositions: []assembly{{"complete", []string{own.Ref}}},
	}
	for _, s := range p.info.Settings {
		b.Metadata.Properties = append(b.Metadata.Properties, property{"go:build:" + s.Key, s.Value})
	}
	for _, m := range p.info.Deps {
		url := packageURL(m.Path, m.Version)
		c := component{Type: "library", Ref: url, Name: m.Path, Version: m.Version, URL: url, Licences: licencesOf(l.spdx[m.Path])}
		// What go.sum has of a module is a SHA-256, too: that of the list of its files and their sums.
		digest, err := base64.StdEncoding.DecodeString(strings.TrimPrefix(m.Sum, "h1:"))
		if err != nil || len(digest) != sha256.Size {
			return nil, fmt.Errorf("%s %s has the sum %q, which is none of go.sum's", m.Path, m.Version, m.Sum)
		}
		c.Hashes = []hash{{"SHA-256", hex.EncodeToString(digest)}}
		b.Components = append(b.Components, c)
	}
	slices.SortFunc(b.Components, func(x, y component) int { return strings.Compare(x.URL, y.URL) })
	var text bytes.Buffer
	e := json.NewEncoder(&text)
	e.SetEscapeHTML(false)
	e.SetIndent("", "  ")
	err := e.Encode(b)
	return text.Bytes(), err
}

// packageURL names a module as scanners of bills look it up (github.com/package-url/purl-spec, type golang).
func packageURL(module, version string) string {
	return "pkg:golang/" + module + "@" + strings.ReplaceAll(version, "+", "%2B")
}

// serialOf is a UUID of the kind that is free to choose (version 8 of RFC 9562), the same for the same program.
func serialOf(sum [sha256.Size]byte) string {
	sum[6], sum[8] = sum[6]&0x0f|0x80, sum[8]&0x3f|0x80
	return fmt.Sprintf("urn:uuid:%x-%x-%x-%x-%x", sum[:4], sum[4:6], sum[6:8], sum[8:10], sum[10:16])
}

func licencesOf(spdx string) []licence {
	if strings.Contains(spdx, " ") {
		return []licence{{Expression: spdx}}
	}
	return []licence{{One: &oneLicence{spdx}}}
}
