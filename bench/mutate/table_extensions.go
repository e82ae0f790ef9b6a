package main

// extensions are skills and pages.
var extensions = []mutation{
	{
		"a skill has links followed", guard, "internal/skill/skill.go",
		"case !d.Type().IsRegular():", "case !d.Type().IsRegular() && d == nil:", "internal/skill", "TestRefused|TestLinksOfADirectory",
	},
	{
		"a skill's directory is a link", guard, "internal/skill/skill.go",
		"fs.Lstat(fsys, dir[:at])", "fs.Stat(fsys, dir[:at])", "internal/skill", "TestLinksOfADirectory",
	},
	{
		"an empty directory is lost", validation, "internal/skill/skill.go",
		"		if !something {", "		if something && name == \"\" {", "internal/skill", "TestRefused",
	},
	{
		"a skill has any number of directories", limit, "internal/skill/skill.go",
		"if dirs++; dirs > most {", "if dirs++; dirs < 0 {", "internal/skill", "TestRefused",
	},
	{
		"a skill has any number of files", limit, "internal/skill/skill.go",
		"case len(files) == most:", "case len(files) < 0:", "internal/skill", "TestRefused",
	},
	{
		"each file of a skill has all the room", limit, "internal/skill/skill.go",
		"\t\troom -= int64(len(data))\n", "", "internal/skill", "TestRefused",
	},
	{
		"frontmatter has any size", limit, "internal/skill/skill.go",
		"len(text) > most {", "len(text) < 0 {", "internal/skill", "TestRefused",
	},
	{
		"frontmatter has any number of levels in lists", limit, "internal/skill/frontmatter.go",
		"		if levels--; levels < 0 {\n", "		if levels < 0 {\n", "internal/skill", "TestRefused",
	},
	{
		"frontmatter has any number of levels in mappings", limit, "internal/skill/frontmatter.go",
		"levels int) ([]byte, error) {\n	if levels--; levels < 0 {\n", "levels int) ([]byte, error) {\n	if levels < 0 {\n", "internal/skill", "TestRefused",
	},
	{
		"the parser gets any number of levels in a line", limit, "internal/skill/frontmatter.go",
		"if brackets > most || inLine > most {", "if brackets > most {", "internal/skill", "TestRefused",
	},
	{
		"a quoted scalar is no string", guard, "internal/skill/frontmatter.go",
		"t == token.SingleQuoteType || t == token.DoubleQuoteType", "t == token.DoubleQuoteType", "internal/skill", "TestFrontmatter",
	},
	{
		"a tab is lost", guard, "internal/skill/frontmatter.go",
		`strings.Contains(strings.TrimSpace(t.Origin), "\t")`, `strings.Contains(t.Value, "\t")`, "internal/skill", "TestFrontmatter",
	},
	{
		"a skill begins with a byte order mark", guard, "internal/skill/frontmatter.go",
		"if bytes.HasPrefix(text, []byte(\"\\ufeff\")) {", "if text = bytes.TrimPrefix(text, []byte(\"\\ufeff\")); text == nil {", "internal/skill", "TestRefused",
	},
	{
		"a sample of a skill refuses the skill around it", guard, "internal/skill/skill.go",
		"		case f.Path == Main:\n", "		case err != nil:\n", "internal/skill", "TestSampleWithin",
	},
	{
		"a skill within may have any name", guard, "internal/skill/skill.go",
		`if s.Dir != "" && path.Base(s.Dir) != s.Name {`, `if s.Dir == "-" && path.Base(s.Dir) != s.Name {`, "internal/skill", "TestSampleWithin",
	},
	{
		"a resource takes the place of a skill's file", guard, "resource.go",
		"case replaced && old.file != nil:", "case replaced && old == nil:", "internal/spec/server", "TestSkillsThatCannotBeAdded",
	},
	{
		"a skill takes the place of a resource", guard, "skill.go",
		"ok && (old.file == nil || old.file.tree != before) {", "ok && old == nil {", "internal/spec/server", "TestSkillsThatCannotBeAdded",
	},
	{
		"a file of a skill is removed as a resource", guard, "resource.go",
		"if r, ok := all[uri]; ok && r.file == nil {", "if _, ok := all[uri]; ok {", "internal/spec/server", "TestSkillsThatChange",
	},
	{
		"skills/get shows hidden skills", guard, "skill.go",
		"if !ok || !call.view().sees(k.item()) {", "if !ok {", "internal/spec/server", "TestSkillsByCaller",
	},
	{
		"a skill within a hidden one is shown", guard, "skill.go",
		"tree: t, meta: k.Meta.Clone(), entry:", "tree: t, entry:", "internal/spec/server", "TestSkillsHiddenByMeta",
	},
	{
		"skills/get takes what is only much like a skill's URI", guard, "skill.go",
		"		if template.Same(name, uri) {\n", "		if template.Same(name, uri) || true {\n", "internal/spec/server", "TestSkillRequestsThatAreRefused",
	},
	{
		"a skill that is there is given away", guard, "skill.go",
		"replaced && !replace {", "replaced && t == nil {", "internal/spec/server", "TestSkillsThatCannotBeAdded",
	},
	{
		"Visible is asked of each file of a list", limit, "catalogue.go",
		"	shown, newest := 0, \"\"\n	v = v.forList()\n", "	shown, newest := 0, \"\"\n", "internal/spec/server", "TestVisibleIsAskedOfSkills",
	},
	{
		"Visible is asked of each file of a digest", limit, "catalogue.go",
		"	var items [][]byte\n	v = v.forList()\n", "	var items [][]byte\n", "internal/spec/server", "TestVisibleIsAskedOfSkills",
	},
	{
		"an item that was replaced is sent as before", merge, "catalogue.go",
		"ok && before.byName[k] == s.byName[k] {", "ok {", "", "TestItemsAreEncodedOnce",
	},
	{
		"directories show hidden files", guard, "skill.go",
		"r.file != nil && d.view.sees(r.item()) {", "r.file != nil {", "internal/spec/server", "TestSkillsByCaller",
	},
	{
		"directories show what is no skill's", guard, "skill.go",
		"r.file != nil && d.view.sees(r.item()) {", "d.view.sees(r.item()) {", "internal/spec/server", "TestDirectoriesAreOfSkillsAlone",
	},
	{
		"a skill around hides the files of one within", guard, "visible.go",
		"for at := 0; !seen && at < len(others); at++ {", "for at := 0; seen && at < len(others); at++ {", "internal/spec/server", "TestSkillsByCaller",
	},
	{
		"the root of all skills is a directory", guard, "skill.go",
		"!ok || !strings.HasPrefix(uri, skillScheme) {", "!ok {", "internal/spec/server", "TestSkillRequestsThatAreRefused",
	},
	{
		"other bytes of as many are no news", guard, "visible.go",
		"len(skills.names) > 0 {", "len(skills.names) < 0 {", "internal/spec/server", "TestSkillsThatChange",
	},
	{
		"an origin is every host", guard, "page.go",
		`(?:\*\.[a-zA-Z0-9-]+\.)?`, `(?:\*\.)?`, "internal/spec/server", "TestPagesThatCannotBeAdded",
	},
	{
		"an origin ends a policy", guard, "page.go",
		"	if m == nil {\n		return false\n	}\n", "	if m == nil {\n		return true\n	}\n", "internal/spec/server", "TestPagesThatCannotBeAdded",
	},
	{
		"a file has another URI than references lead to", validation, "skill.go",
		"-._~!$&'()*+,;=:@\"", "-._~\"", "internal/spec/server", "TestNamesOfSkillFiles",
	},
	{
		"a page that is there is given away", guard, "page.go",
		"return s.addPage(p, false) }", "return s.addPage(p, true) }", "internal/spec/server", "TestPagesThatChange",
	},
	{
		"a page is declared where tools have no _meta", guard, "mcp/project_lifecycle.go",
		"s.Extensions = without(s.Extensions, ExtensionUI, CapClientUI.knownTo(r))", "_ = r", "internal/spec/server", "TestPages",
	},
}
