package hostfile

import (
	"net/url"
	"regexp"
	"slices"
	"strings"
)

// mask stands for a secret.
const mask = "***"

// leastSecret is how long a text must be to be looked for in texts of others: shorter ones, such as a 1, are everywhere.
const leastSecret = 6

// usefulSecrets are those that Mask looks for, longest first, each line of one with several for itself.
func usefulSecrets(all []string) (useful []string) {
	for _, s := range all {
		for line := range strings.Lines(s) {
			if line = strings.TrimSpace(line); len(line) >= leastSecret {
				useful = append(useful, line)
			}
		}
	}
	slices.Sort(useful)
	useful = slices.Compact(useful)
	slices.SortStableFunc(useful, func(a, b string) int { return len(b) - len(a) })
	return useful
}

// hiddenTexts are those that are hidden where a backend is shown, each once.
func hiddenTexts(all []string) (hidden []string) {
	hidden = slices.DeleteFunc(slices.Clone(all), func(s string) bool { return strings.TrimSpace(s) == "" })
	hidden = append(hidden, usefulSecrets(all)...) // a line of one with several may be shown alone
	slices.Sort(hidden)
	return slices.Compact(hidden)
}

// Mask returns a text, such as a line that the backend has written to its standard error, with a mask in place of each of
// its secrets. Secrets of less than six bytes stay.
func (b Backend) Mask(text string) string {
	for _, s := range b.secrets {
		text = strings.ReplaceAll(text, s, mask)
	}
	return text
}

// secretWord matches names of flags and parameters whose values are secret.
var secretWord = regexp.MustCompile(`(?i)(key|token|secret|passw|pwd|credential|auth|signature)`)

// secretFlag matches an argument that is such a flag, with its value behind = if it has one there.
var secretFlag = regexp.MustCompile(`^(--?[A-Za-z0-9_.-]+|[A-Za-z0-9_]+)(=(.*))?$`)

// secretFlagValue returns the value of an argument that is a flag for a secret, and whether the next argument is its value.
func secretFlagValue(arg string) (value string, next bool) {
	m := secretFlag.FindStringSubmatch(arg)
	if m == nil || !secretWord.MatchString(m[1]) {
		return "", false
	}
	if m[2] != "" {
		return m[3], false
	}
	return "", arg[0] == '-'
}

// secretArguments are the arguments, and parts of some, that seem to be secrets: they should be in the environment, where
// other users do not see them.
func secretArguments(args []string) (secrets []string) {
	next := false
	for _, arg := range args {
		value := ""
		if next && !strings.HasPrefix(arg, "-") {
			value, next = arg, false
		} else {
			value, next = secretFlagValue(arg)
		}
		if value != "" {
			secrets = append(secrets, value)
		}
		if strings.Contains(arg, "://") {
			secrets = append(secrets, secretParts(arg)...)
		}
	}
	return secrets
}

// secretParts are the parts of a URL that are, or seem to be, secrets.
func secretParts(raw string) (secrets []string) {
	u, err := url.Parse(raw)
	if err != nil {
		return nil
	}
	if u.User != nil {
		password, _ := u.User.Password()
		secrets = append(secrets, password, u.User.String())
	}
	for name, values := range u.Query() {
		if secretWord.MatchString(name) {
			for _, v := range values {
				secrets = append(secrets, v, url.QueryEscape(v))
			}
		}
	}
	return secrets
}
