package hostfile

import (
	"errors"
	"slices"
	"strings"
	"testing"
)

// expand puts in the references of a text in a file of a project.
func expand(text string) (string, []string, error) {
	yes := "default of yes"
	x := &expander{Source: at("/srv/project/.vscode/mcp.json"), inputs: map[string]*input{
		"search-key": {id: "search-key"}, "yes": {id: "yes", defaultValue: &yes}, "Unset Key": {id: "Unset Key"}, "wrong": {id: "wrong", defaultValue: &yes, options: []string{"a"}},
	}}
	return x.expand(text)
}

func TestExpand(t *testing.T) {
	t.Parallel()
	for text, want := range map[string]string{
		"":                                    "",
		"plain":                               "plain",
		"$":                                   "$",
		"$$":                                  "$$",
		"$API_KEY":                            "$API_KEY",
		"a$b{c}":                              "a$b{c}",
		"${API_KEY}":                          "key-s3cret",
		"<${API_KEY}|${env:EVENTS_KEY}>":      "<key-s3cret|events-s3cret>",
		"${EMPTY}":                            "",
		"${EMPTY:-x}":                         "x",
		"${NO:-}":                             "",
		"${NO:-x y}":                          "x y",
		"${env:NO:-x}":                        "x",
		"${API_KEY:-${NO}}":                   "key-s3cret", // a default that is not used may name what is not there
		"${NO:-${API_KEY}}":                   "key-s3cret",
		"${NO:-${NO2:-${NO3:-deep}}}":         "deep",
		"${NO:-a${EMPTY:-b}c}d":               "abcd",
		"${NO:-{a}}":                          "{a}", // the first brace that closes no reference ends the default
		"${NO:-$${API_KEY}":                   "${API_KEY",
		"$${API_KEY}":                         "${API_KEY}",
		"$${API_KEY} ${API_KEY}":              "${API_KEY} key-s3cret",
		"$$${API_KEY}":                        "$${API_KEY}",
		"${NO:-:-x}":                          ":-x",
		"${REFERENCE}":                        "${API_KEY}", // what comes out is text
		"${file:/run/secrets/token}":          "token-s3cret",
		"${file:relative}":                    "relative-s3cret",
		"${file:~/.secrets/github}":           "github-s3cret",
		`${file:C:\secret}`:                   "windows-s3cret",
		"${file:${userHome}/.secrets/github}": "github-s3cret",
		"${file:${API_KEY}}":                  "found-s3cret",
		"${file:with-references}":             "${API_KEY}",
		"${file:many-lines}":                  "first-s3cret\nsecond-s3cret\nx",
		"${input:search-key}":                 "search-s3cret",
		"${input:yes}":                        "default of yes",
		"${workspaceFolder}/a":                "/srv/project/a",
		"${workspaceFolderBasename}":          "project",
		"${userHome}${pathSeparator}a${/}b":   "/Users/ada/a/b",
	} {
		got, _, err := expand(text)
		if err != nil || got != want {
			t.Errorf("%q: %q, %v, want %q", text, got, err, want)
		}
	}
}

// TestExpandFails has texts whose references name nothing: they are errors, and never text.
func TestExpandFails(t *testing.T) {
	t.Parallel()
	for text, want := range map[string]string{
		"${NO}":                      "unset: the variable NO is not set",
		"a ${env:NO} b":              "unset: the variable NO is not set",
		"${NO:-${NO2}}":              "unset: the variable NO2 is not set",
		"${workspacefolder}":         "unset: the variable workspacefolder is not set; did you mean workspaceFolder?",
		"${file:no}":                 "unset: /srv/project/no cannot be read: file does not exist",
		"${file:${NO}}":              "unset: the variable NO is not set",
		"${file:a/${API_KEY}}":       "unset: a/${API_KEY} cannot be read: file does not exist",
		"${file:/run/secrets/empty}": "unset: /run/secrets/empty is empty",
		"${input:Unset Key}":         "unset: the input \"Unset Key\" has no value: set the variable INPUT_UNSET_KEY",
		"${input:wrong}":             "unset: the value of the input \"wrong\" is none of its options",
		"${input:serch-key}":         "the input \"serch-key\" is not among the inputs of the file; did you mean search-key?",
		"${file:}":                   "the reference ${file:} names no file",
		"${}":                        "the reference ${…} is not known",
		"${command:s3cret}":          "the reference ${command…} is not known",
		"${config:editor}":           "the reference ${config…} is not known",
		"${A-s3cret}":                "the reference ${A…} is not known",
		"${A:=s3cret}":               "the reference ${A…} is not known",
		"${A%b}":                     "the reference ${A…} is not known",
		"${1}":                       "the reference ${1…} is not known",
		"${ A }":                     "the reference ${…} is not known",
		"${Größe}":                   "the reference ${Gr…} is not known",
		"${A":                        "a reference that begins with ${ has no end",
		"${A:-${B}":                  "a reference that begins with ${ has no end",
		strings.Repeat("${A:-", 20) + strings.Repeat("}", 20): "more than 8 references in one another",
		strings.Repeat("${file:relative}", 80_000):            "more than 1048576 bytes come out",
	} {
		got, _, err := expand(text)
		said := ""
		if err != nil {
			said = err.Error()
		}
		if errors.Is(err, ErrUnset) {
			said = "unset: " + said
		}
		if !strings.HasPrefix(said, want) || err == nil || got != "" || strings.Contains(said, "s3cret") {
			t.Errorf("%.60q: %q, %q, want %q", text, got, said, want)
		}
	}
}

// TestExpandSecrets has what counts as secret of a text.
func TestExpandSecrets(t *testing.T) {
	t.Parallel()
	for text, want := range map[string]string{
		"plain":                         "",
		"${HOME}/${workspaceFolder}":    "",
		"${API_KEY}${NO:-x}":            "key-s3cret",
		"${file:relative} ${input:yes}": "relative-s3cret, default of yes",
		"${file:many-lines}":            "first-s3cret\nsecond-s3cret\nx",
		"${NO:-${API_KEY}}${file:${HOME}/.secrets/github}": "key-s3cret, github-s3cret",
	} {
		if _, secrets, err := expand(text); err != nil || strings.Join(secrets, ", ") != want {
			t.Errorf("%q: %q, %v, want %q", text, secrets, err, want)
		}
	}
}

// FuzzExpand puts in references of any text: nothing panics, an error has nothing of what came in, and what has no reference
// stays as it is.
func FuzzExpand(f *testing.F) {
	for _, text := range []string{"", "$", "${", "$${", "${A}", "${API_KEY}", "${NO:-${API_KEY}}", "${file:relative}", "${input:yes}", "$${a}${b:-c}", "${a${b}c}", "}{$", "${env:}", "${:-a}"} {
		f.Add(text)
	}
	f.Fuzz(func(t *testing.T, text string) {
		got, secrets, err := expand(text)
		if err != nil {
			if got != "" || strings.Contains(err.Error(), "s3cret") && !strings.Contains(text, "s3cret") {
				t.Errorf("%q: %q, %v", text, got, err)
			}
			return
		}
		if !strings.Contains(text, "${") && got != text {
			t.Errorf("%q became %q", text, got)
		}
		if slices.Contains(secrets, "") && !strings.Contains(text, "EMPTY") {
			t.Errorf("%q: an empty secret", text)
		}
		// A text that is escaped comes out as it was.
		escaped := strings.ReplaceAll(text, "${", "$${")
		if again, _, err := expand(escaped); !strings.Contains(text, "$${") && (err != nil || again != text) {
			t.Errorf("%q escaped: %q, %v", text, again, err)
		}
	})
}

func TestReadVariables(t *testing.T) {
	t.Parallel()
	const file = "\ufeff# comment\r\n" + `
A=1
export B = two words # comment
C="quoted # no comment" # comment
D='single "quotes" \n $HOME'
E="a\nb\tc\"d\\e\$f \Users"
F=
G=a=b
H=#none
I="first
second"
A=2
J=${A}
K=no#comment
  L =  spaces  ` + "\nM='x\ny\n\nz'\nN=last"
	want := map[string]string{
		"A": "2", "B": "two words", "C": "quoted # no comment", "D": `single "quotes" \n $HOME`, "E": "a\nb\tc\"d\\e$f \\Users", "F": "", "G": "a=b", "H": "",
		"I": "first\nsecond", "J": "${A}", "K": "no#comment", "L": "spaces", "M": "x\ny\n\nz", "N": "last",
	}
	got, err := ReadVariables("x.env", []byte(file))
	if err != nil {
		t.Fatal(err)
	}
	for name, value := range want {
		if got[name] != value {
			t.Errorf("%s is %q, want %q", name, got[name], value)
		}
	}
	if len(got) != len(want) {
		t.Errorf("%d variables, want %d: %q", len(got), len(want), got)
	}
	for file, want := range map[string]string{
		"A=1\ns3cret":           "x.env:2: want NAME=VALUE",
		"=s3cret":               "x.env:1: want NAME=VALUE",
		"1A=s3cret":             "x.env:1: want NAME=VALUE",
		"A B=s3cret":            "x.env:1: want NAME=VALUE",
		"\nA=\"s3cret\nB=2\n":   "x.env:2: the quote of A is not closed",
		"A='a'\nB='s3cret\n' b": "x.env:3: there is something behind the closing quote",
	} {
		if _, err := ReadVariables("x.env", []byte(file)); err == nil || err.Error() != want {
			t.Errorf("%q: %v, want %q", file, err, want)
		}
	}
}

// FuzzReadVariables reads any file: a mistake has a line of the file, and what could be read is read again from what says the same.
func FuzzReadVariables(f *testing.F) {
	for _, file := range []string{"A=1", "export A='b\nc' # d\r\nB=\"\\\"\"", "A=\"", "\ufeffA", "A='''", "A=\"a\"b", " A = b # c"} {
		f.Add(file)
	}
	f.Fuzz(func(t *testing.T, file string) {
		all, err := ReadVariables("f", []byte(file))
		if err != nil {
			return
		}
		var b strings.Builder
		for name, value := range all {
			if strings.ContainsAny(value, "'\r") {
				return
			}
			b.WriteString(name + "='" + value + "'\n")
		}
		again, err := ReadVariables("f", []byte(b.String()))
		if err != nil || len(again) != len(all) {
			t.Fatalf("%v, written as %q", err, b.String())
		}
		for name, value := range all {
			if again[name] != value {
				t.Errorf("%s is %q and then %q", name, value, again[name])
			}
		}
	})
}
