package hostfile

import (
	"fmt"
	"regexp"
	"strings"
)

var (
	variableName = regexp.MustCompile(`^[A-Za-z_][A-Za-z0-9_.-]*$`)
	lineComment  = regexp.MustCompile(`\s#.*$`)
)

// ReadVariables reads a file of variables, in lines of NAME=VALUE as dotenv files have them: comments begin with #, "export"
// may stand before a name, and a value may be in quotes and then have several lines. In double quotes \n, \r, \t, \" and \\
// are what they are elsewhere; in single quotes everything is itself. References are text. Of a name that comes twice
// the last one counts. path is for errors, which have no value.
func ReadVariables(path string, data []byte) (map[string]string, error) {
	all := make(map[string]string)
	rest := strings.ReplaceAll(strings.TrimPrefix(string(data), "\ufeff"), "\r\n", "\n")
	for line := 1; rest != ""; line++ {
		one, after, _ := strings.Cut(rest, "\n")
		trimmed := strings.TrimSpace(one)
		if trimmed == "" || trimmed[0] == '#' {
			rest = after
			continue
		}
		name, value, ok := strings.Cut(one, "=")
		name = strings.TrimSpace(strings.TrimPrefix(strings.TrimSpace(name), "export "))
		if !ok || !variableName.MatchString(name) {
			return nil, fmt.Errorf("%s:%d: want NAME=VALUE", path, line)
		}
		value = strings.TrimLeft(value, " \t")
		if value == "" || value[0] != '"' && value[0] != '\'' {
			all[name] = strings.TrimSpace(lineComment.ReplaceAllString(" "+value, "")) // a value may be a comment alone
			rest = after
			continue
		}
		quoted := rest[len(one)-len(value)+1:]
		text, size, found := readQuoted(quoted, value[0])
		if !found {
			return nil, fmt.Errorf("%s:%d: the quote of %s is not closed", path, line, name)
		}
		line += strings.Count(quoted[:size], "\n")
		behind, after, _ := strings.Cut(quoted[size:], "\n")
		if behind = strings.TrimSpace(behind); behind != "" && behind[0] != '#' {
			return nil, fmt.Errorf("%s:%d: there is something behind the closing quote", path, line)
		}
		all[name], rest = text, after
	}
	return all, nil
}

// readQuoted returns the text up to the closing quote, and how many bytes it is long with that.
func readQuoted(value string, quote byte) (text string, size int, found bool) {
	var b strings.Builder
	for i := 0; i < len(value); i++ {
		switch c := value[i]; {
		case c == quote:
			return b.String(), i + 1, true
		case c == '\\' && quote == '"' && i+1 < len(value):
			i++
			switch value[i] {
			case 'n':
				b.WriteByte('\n')
			case 'r':
				b.WriteByte('\r')
			case 't':
				b.WriteByte('\t')
			case '"', '\\', '$':
				b.WriteByte(value[i])
			default: // such as a path of Windows
				b.WriteByte('\\')
				b.WriteByte(value[i])
			}
		default:
			b.WriteByte(c)
		}
	}
	return "", 0, false
}
