package configfile

import (
	"errors"
	"fmt"
	"path/filepath"
	"strings"

	"github.com/goccy/go-yaml/ast"

	"github.com/troupe-run/troupe/auth"
)

// Auth is the section auth: what of an auth.Config is no flag.
type Auth struct {
	Issuers []auth.Issuer
	Scopes  []string
	Implies map[string][]string
	Claims  []string

	// Line is where the section begins, from 1. 0 means that the file has none.
	Line int
	// SecretFiles are the files from which the client secrets were read, by the place of their issuer in
	// Issuers. A secret that stands in the section itself has none.
	SecretFiles map[int]string
}

// ReadAuth reads the section auth into a. An empty one says nothing. The paths of files in it begin in dir, unless that is "". A secret that lies in a file of its own is read by readFile.
func ReadAuth(a *Auth, dir string, readFile func(name string) ([]byte, error)) Reader {
	return func(n ast.Node, line int, at string) error {
		a.Line = line
		if _, empty := n.(*ast.NullNode); empty {
			return nil
		}
		return readMapping(line, at, authReaders(a, files{dir, readFile}), n)
	}
}

// files are those that a section names.
type files struct {
	dir  string
	read func(name string) ([]byte, error)
}

// setPath stores the path of a file; what is a URL stays as it is.
func (f files) setPath(into *string) Reader {
	return func(n ast.Node, line int, at string) error {
		err := setText(into)(n, line, at)
		if f.dir != "" && *into != "" && !filepath.IsAbs(*into) && !strings.Contains(*into, "://") {
			*into = filepath.Join(f.dir, *into)
		}
		return err
	}
}

func authReaders(a *Auth, from files) map[string]Reader {
	return map[string]Reader{
		"issuers": func(n ast.Node, line int, at string) error {
			return readList(n, line, at, func(n ast.Node, line int, at string) error {
				i, secretFile, err := readIssuer(n, line, at, from)
				if secretFile != "" {
					if a.SecretFiles == nil {
						a.SecretFiles = make(map[int]string)
					}
					a.SecretFiles[len(a.Issuers)] = secretFile
				}
				a.Issuers = append(a.Issuers, i)
				return err
			})
		},
		"scopes": setTexts(&a.Scopes),
		"implies": func(n ast.Node, line int, at string) error {
			all, err := entries(line, at, n)
			a.Implies = make(map[string][]string)
			for _, e := range all {
				var narrower []string
				if err := setTexts(&narrower)(e.value, e.line, below(at, e.name)); err != nil {
					return err
				}
				a.Implies[e.name] = narrower
			}
			return err
		},
		"claims": setTexts(&a.Claims),
	}
}

func readIssuer(n ast.Node, line int, at string, from files) (i auth.Issuer, secretFile string, err error) {
	err = readMapping(line, at, map[string]Reader{
		"url": setText(&i.URL), "audiences": setTexts(&i.Audiences), "audience-claim": setText(&i.AudienceClaim), "client-ids": setTexts(&i.ClientIDs), "keys": from.setPath(&i.Keys),
		"introspection": func(n ast.Node, line int, at string) (err error) {
			i.Introspection, secretFile, err = readIntrospection(n, line, at, from)
			return err
		},
	}, n)
	return i, secretFile, err
}

func readIntrospection(n ast.Node, line int, at string, from files) (in *auth.Introspection, secretFile string, err error) {
	in = new(auth.Introspection)
	secrets := 0
	secret := func(read Reader) Reader {
		return func(n ast.Node, line int, at string) error {
			if secrets++; secrets > 1 {
				return mistake(line, at, errors.New("client-secret and client-secret-file exclude each other: set one of them"))
			}
			return read(n, line, at)
		}
	}
	err = readMapping(line, at, map[string]Reader{
		"url": setText(&in.URL), "client-id": setText(&in.ClientID), "client-secret": secret(setText(&in.ClientSecret)),
		"client-secret-file": secret(func(n ast.Node, line int, at string) error {
			if err := from.setPath(&secretFile)(n, line, at); err != nil {
				return err
			}
			data, err := from.read(secretFile)
			if err != nil {
				return mistake(line, at, err)
			}
			if in.ClientSecret = strings.TrimRight(string(data), "\r\n"); in.ClientSecret == "" {
				return mistake(line, at, fmt.Errorf("%s is empty", secretFile))
			}
			return nil
		}),
	}, n)
	return in, secretFile, err
}
