package configfile

import (
	"encoding/json"
	"maps"
	"regexp"
	"slices"
	"strconv"
	"strings"
)

// plainText matches texts that YAML takes for nothing else, but for the words of notText.
var plainText = regexp.MustCompile(`^(https?://|/)?[A-Za-z][A-Za-z0-9._/-]*$`)

// notText are the words that some reader of YAML takes for another value than a text.
var notText = []string{"true", "false", "yes", "no", "on", "off", "y", "n", "null", "inf", "nan", "infinity"}

// Text writes a text as a file has it: as it is, or in quotes if YAML could take it for something else.
func Text(text string) string {
	if plainText.MatchString(text) && !slices.Contains(notText, strings.ToLower(text)) {
		return text
	}
	return strconv.Quote(text)
}

// Texts writes a list of texts.
func Texts(all []string) string {
	written := make([]string, len(all))
	for i, text := range all {
		written[i] = Text(text)
	}
	return "[" + strings.Join(written, ", ") + "]"
}

// Lines writes the section as lines of a file, and nothing if it is empty. A secret is not among them:
// in its place is the name of its file, or a comment.
func (a *Auth) Lines() (lines []string) {
	if len(a.Issuers) > 0 {
		lines = append(lines, "  issuers:")
	}
	for n, i := range a.Issuers {
		lines = append(lines, "    - url: "+Text(i.URL))
		lines = appendTexts(lines, "      ", "audiences", i.Audiences)
		lines = appendText(lines, "      ", "audience-claim", i.AudienceClaim)
		lines = appendTexts(lines, "      ", "client-ids", i.ClientIDs)
		lines = appendText(lines, "      ", "keys", i.Keys)
		if in := i.Introspection; in != nil {
			lines = append(lines, "      introspection:", "        url: "+Text(in.URL))
			lines = appendText(lines, "        ", "client-id", in.ClientID)
			switch file := a.SecretFiles[n]; {
			case file != "":
				lines = append(lines, "        client-secret-file: "+Text(file))
			case in.ClientSecret != "":
				lines = append(lines, "        # client-secret: (a secret, left out)")
			}
		}
	}
	lines = appendTexts(lines, "  ", "scopes", a.Scopes)
	if len(a.Implies) > 0 {
		lines = append(lines, "  implies:")
	}
	for _, broad := range slices.Sorted(maps.Keys(a.Implies)) {
		lines = append(lines, "    "+Text(broad)+": "+Texts(a.Implies[broad]))
	}
	lines = appendTexts(lines, "  ", "claims", a.Claims)
	if lines == nil {
		return nil
	}
	return slices.Insert(lines, 0, "auth:")
}

func appendText(lines []string, indent, name, text string) []string {
	if text == "" {
		return lines
	}
	return append(lines, indent+name+": "+Text(text))
}

func appendTexts(lines []string, indent, name string, texts []string) []string {
	if len(texts) == 0 {
		return lines
	}
	return append(lines, indent+name+": "+Texts(texts))
}

// MarshalJSON writes what Lines writes.
func (a *Auth) MarshalJSON() ([]byte, error) {
	type introspection struct {
		URL        string `json:"url"`
		ClientID   string `json:"client-id,omitempty"`
		SecretFile string `json:"client-secret-file,omitempty"`
		HasSecret  bool   `json:"has-client-secret,omitempty"`
	}
	type issuer struct {
		URL           string         `json:"url"`
		Audiences     []string       `json:"audiences,omitempty"`
		AudienceClaim string         `json:"audience-claim,omitempty"`
		ClientIDs     []string       `json:"client-ids,omitempty"`
		Keys          string         `json:"keys,omitempty"`
		Introspection *introspection `json:"introspection,omitempty"`
	}
	var section struct {
		Issuers []issuer            `json:"issuers,omitempty"`
		Scopes  []string            `json:"scopes,omitempty"`
		Implies map[string][]string `json:"implies,omitempty"`
		Claims  []string            `json:"claims,omitempty"`
	}
	section.Scopes, section.Implies, section.Claims = a.Scopes, a.Implies, a.Claims
	for n, i := range a.Issuers {
		one := issuer{URL: i.URL, Audiences: i.Audiences, AudienceClaim: i.AudienceClaim, ClientIDs: i.ClientIDs, Keys: i.Keys}
		if in := i.Introspection; in != nil {
			one.Introspection = &introspection{in.URL, in.ClientID, a.SecretFiles[n], in.ClientSecret != ""}
		}
		section.Issuers = append(section.Issuers, one)
	}
	return json.Marshal(section)
}
