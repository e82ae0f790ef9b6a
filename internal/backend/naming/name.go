package naming

import (
	"crypto/sha256"
	"encoding/hex"
	"strings"
	"unicode/utf8"
)

const (
	// most is how long a name with a prefix may be: some APIs of models take no longer one.
	most = 64
	// hashed is how many hex digits of a hash a name ends with that was cut.
	hashed = 8
	// separator stands between a backend and the name of an item.
	separator = "__"
	// none is the option for no prefix.
	none = "none"
)

// Prefix returns what is put in front of the names of a backend's items: option, or from the backend's own name where
// that is "". It is "" if the option says none.
func Prefix(backend, option string) string {
	switch option {
	case "":
		return backend + separator
	case none:
		return ""
	}
	return option
}

// Clash reports whether two prefixes could give the same name to items of two backends: one begins with the other. An
// empty prefix clashes with none, since the names behind it are not known before they are listed; see [Own].
func Clash(a, b string) bool {
	return a != "" && b != "" && (strings.HasPrefix(a, b) || strings.HasPrefix(b, a))
}

// Name returns what an item is called behind an endpoint. With a prefix it has 64 bytes at most: a longer one is cut, at
// the end of a character, and ends with a hash of the whole.
func Name(prefix, item string) string {
	whole := prefix + item
	if prefix == "" || len(whole) <= most {
		return whole
	}
	cut := most - hashed - 1
	for cut > 0 && !utf8.RuneStart(whole[cut]) {
		cut--
	}
	return whole[:cut] + "_" + hash(whole)
}

func hash(text string) string {
	sum := sha256.Sum256([]byte(text))
	return hex.EncodeToString(sum[:])[:hashed]
}

// Item returns what the backend with a prefix calls the item with a name, and whether the name can be one of its items. If
// it may have been cut, item is "": it is the one of the backend's items whose [Name] it is.
func Item(prefix, name string) (item string, may bool) {
	if !strings.HasPrefix(name, prefix) {
		return "", false
	}
	if prefix != "" && isCut(name) {
		return "", true
	}
	item = name[len(prefix):]
	if item == "" || Name(prefix, item) != name {
		return "", false
	}
	return item, true
}

// isCut reports whether a name looks like one that was cut. One that only looks so is found by its items, too. A character
// of up to four bytes may have been left out before the hash.
func isCut(name string) bool {
	if len(name) <= most-utf8.UTFMax || len(name) > most || name[len(name)-hashed-1] != '_' {
		return false
	}
	return strings.Trim(name[len(name)-hashed:], "0123456789abcdef") == ""
}
