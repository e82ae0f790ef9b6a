package troupe

import (
	"fmt"
	"unicode/utf8"

	"github.com/troupe-run/troupe/internal/limits"
)

// checkName refuses a name of a tool or a prompt under which some client could not ask
// for it: a client since 2026-07-28 repeats it in the header Mcp-Name, in base64 where it
// is not plain.
func checkName(kind, name string) error {
	most := limits.Name.Value()
	switch {
	case name == "":
		return fmt.Errorf("troupe: a %s needs a name", kind)
	case !utf8.ValidString(name):
		return fmt.Errorf("troupe: the name %q of a %s is not UTF-8", name, kind)
	case len(name) > most:
		return fmt.Errorf("troupe: the name %q of a %s has %d bytes: at most %d fit a header of every client", shown(name), kind, len(name), most)
	}
	return nil
}
