package auth

import (
	"log/slog"
	"net/http"
	"slices"
	"strings"

	"github.com/troupe-run/troupe/internal/scope"
)

// distinctScopes returns those of the texts that are scopes, each once. A token may have thousands, and nobody has verified it yet.
func distinctScopes(texts []string) (all []string) {
	seen := make(map[string]struct{})
	for _, s := range texts {
		if _, twice := seen[s]; !twice && scope.Valid(s) {
			seen[s] = struct{}{}
			all = append(all, s)
		}
	}
	return all
}

// toAskFor returns the scopes that a client should ask for of some texts, each once.
func toAskFor(texts []string) []string {
	return slices.DeleteFunc(distinctScopes(texts), func(s string) bool { return s == scope.OfflineAccess })
}

// scopes returns the scopes of a token: those of scope (RFC 9068, 2.2.3), or of scp, which Entra and Okta have. Both may be a string with spaces or an array. What
// cannot be a scope is left out. ok is whether one of the claims is there.
func (o object) scopes() (all []string, ok bool, err error) {
	for _, name := range []string{"scope", "scp"} {
		if all, ok, err = o.list(name); ok || err != nil {
			return distinctScopes(strings.Split(strings.Join(all, " "), " ")), ok, err
		}
	}
	return nil, false, nil
}

// hierarchy has, for each scope, those that imply it, directly or by way of others.
type hierarchy map[string][]string

func newHierarchy(implies map[string][]string) hierarchy {
	h := make(hierarchy)
	for broad := range implies {
		reached := []string{broad}
		for i := 0; i < len(reached); i++ { // grows while it runs; a scope that was reached is not added again, so a cycle ends
			for _, narrow := range implies[reached[i]] {
				if !slices.Contains(reached, narrow) {
					reached = append(reached, narrow)
					h[narrow] = append(h[narrow], broad)
				}
			}
		}
	}
	return h
}

// missingScopes returns those of the needed scopes that the granted ones neither hold nor imply. It allocates nothing if none is missing.
func (a *Authority) missingScopes(granted, needed []string) (missing []string) {
	for _, n := range needed {
		if slices.Contains(granted, n) {
			continue
		}
		if !slices.ContainsFunc(a.broader[n], func(broad string) bool { return slices.Contains(granted, broad) }) {
			missing = append(missing, n)
		}
	}
	return missing
}

// Require returns nil if the granted scopes hold or imply the needed ones, and otherwise a 403. Its scopes are the granted and the needed ones together: a client that
// asks for exactly those gets a token that does all that the old one did. offline_access is never among them. The zero Authority has no scope imply another.
func (a *Authority) Require(granted, needed []string) *Refusal {
	missing := a.missingScopes(granted, needed)
	if len(missing) == 0 {
		return nil
	}
	return &Refusal{
		Status: http.StatusForbidden, Code: InsufficientScope, Reason: ReasonScope, Text: textScope, Scopes: toAskFor(slices.Concat(granted, needed)),
		Known: []slog.Attr{slog.Any("lacks", missing), slog.Any("has", granted)},
	}
}
