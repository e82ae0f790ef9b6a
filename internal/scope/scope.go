package scope

import (
	"fmt"
	"slices"
	"strings"
)

// OfflineAccess says how long a client has tokens, and not what they are for: no item needs it.
const OfflineAccess = "offline_access"

// Check returns an error for the first of the texts that no item may need: one that is no scope-token (RFC 6749, 3.3), or offline_access.
func Check(scopes []string) error {
	for _, s := range scopes {
		if !Valid(s) {
			return fmt.Errorf("scope %q: want one or more characters of ASCII, without spaces, quotes and backslashes", s)
		}
		if s == OfflineAccess {
			return fmt.Errorf("scope %q: it says how long a client has tokens, and not what for", s)
		}
	}
	return nil
}

// Valid reports whether s is a scope-token (RFC 6749, 3.3).
func Valid(s string) bool {
	for i := range len(s) {
		if c := s[i]; c <= ' ' || c >= 0x7f || c == '"' || c == '\\' {
			return false
		}
	}
	return s != ""
}

// Union returns the scopes of a and then those of b that a has not, each once. It returns a or b if that has all of them.
func Union(a, b []string) []string {
	if len(a) == 0 {
		return b
	}
	all := a
	for _, s := range b {
		if !slices.Contains(all, s) {
			all = append(slices.Clip(all), s)
		}
	}
	return all
}

// Challenge is the value of WWW-Authenticate for a client that should ask for these scopes (RFC 6750, 3), where no metadata says where to ask.
func Challenge(wanted []string, text string) string {
	return `Bearer error="insufficient_scope", error_description="` + text + `", scope="` + strings.Join(wanted, " ") + `"`
}
