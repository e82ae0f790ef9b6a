package protocol

import "strings"

// mostShown is how many bytes of an unknown name are sent back.
const mostShown = 128

// Shown returns a name as messages quote it.
func Shown(name string) string { return Shorten(name, mostShown) }

// Shorten is text, or its first bytes, of which none is half a character.
func Shorten(text string, most int) string {
	if len(text) <= most {
		return text
	}
	return strings.ToValidUTF8(text[:most], "") + "…"
}
