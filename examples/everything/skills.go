package everything

import (
	"embed"
	"io/fs"
	"path"

	"github.com/troupe-run/troupe"
)

// skillFiles has a directory for each skill of the demo.
//
//go:embed skills
var skillFiles embed.FS

// addSkills adds the skills, whose files any client can read as resources.
func addSkills(s *troupe.Server) {
	names, err := fs.Glob(skillFiles, "skills/*/SKILL.md")
	if err != nil {
		panic(err) // the pattern is a constant
	}
	for _, name := range names {
		troupe.AddSkill(s, troupe.Skill{Files: skillFiles, Dir: path.Dir(name)})
	}
}
