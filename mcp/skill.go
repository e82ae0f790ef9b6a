package mcp

import (
	"encoding/json"
	"fmt"
)

// ExtensionSkills is the key of the skills extension (SEP-2640) in a server's extensions.
// The extension belongs to no revision: its methods are there in each.
const ExtensionSkills = "io.modelcontextprotocol/skills"

// Skill is the entry of one skill: what a host needs to show it, to have a person approve
// it, and to verify each of its files.
type Skill struct {
	URI string `json:"uri"` // of its SKILL.md
	// Frontmatter is the frontmatter of SKILL.md as JSON, with all that its author wrote.
	// It has name and description.
	Frontmatter Object         `json:"frontmatter"`
	Resources   SkillResources `json:"resources"`
}

// SkillResources are all files of a skill, SKILL.md among them. nil says that the skill's
// content is made on demand and has no digests, which is the string "dynamic" on the wire.
type SkillResources []SkillResource

// SkillResource is one file of a skill.
type SkillResource struct {
	URI    string `json:"uri"`
	Digest string `json:"digest"` // sha256: and the SHA-256 of the file's bytes, in lower-case hex
	Size   int64  `json:"size"`   // bytes, before any encoding
}

const dynamicResources = `"dynamic"`

// MarshalJSON returns an array, or "dynamic" for nil.
func (r SkillResources) MarshalJSON() ([]byte, error) {
	if r == nil {
		return []byte(dynamicResources), nil
	}
	return encode([]SkillResource(r))
}

// UnmarshalJSON takes an array or "dynamic", and refuses anything else.
func (r *SkillResources) UnmarshalJSON(data []byte) error {
	if s, ok := plainString(data); ok && string(s) == "dynamic" {
		*r = nil
		return nil
	}
	var files []SkillResource
	if isNull(data) {
		return fmt.Errorf("mcp: decode the resources of a skill: %w", ErrMalformed)
	}
	if err := json.Unmarshal(data, &files); err != nil {
		return fmt.Errorf("mcp: decode the resources of a skill: %w", err)
	}
	*r = files
	return nil
}
