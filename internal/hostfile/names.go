package hostfile

import (
	"crypto/sha256"
	"encoding/hex"
	"fmt"
	"regexp"
	"strings"
)

// mostName is how long the name of a backend may be, so that with a prefix there is room for that of a tool.
const mostName = 40

var (
	goodName = regexp.MustCompile(fmt.Sprintf(`^[A-Za-z0-9_-]{1,%d}$`, mostName))
	noName   = regexp.MustCompile(`[^A-Za-z0-9_-]+`)
)

var errNoName = fmt.Errorf("a backend is called by up to %d of A-Z a-z 0-9 _ -", mostName)

// cleanName makes a name of what a file calls a backend. Each run of other characters is one _; a name that is too long, or
// of which letters are lost, ends with a hash of the whole.
func cleanName(called string) string {
	name := strings.Trim(noName.ReplaceAllString(called, "_"), "_")
	lossy := strings.ContainsFunc(called, func(r rune) bool { return r > '~' })
	if name != "" && !lossy && len(name) <= mostName {
		return name
	}
	sum := sha256.Sum256([]byte(called))
	hash := hex.EncodeToString(sum[:4])
	if name == "" {
		return "backend_" + hash
	}
	return name[:min(len(name), mostName-1-len(hash))] + "_" + hash
}
