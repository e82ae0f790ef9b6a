package server_test

import (
	"context"
	"crypto/sha256"
	"encoding/json"
	"fmt"
	"io/fs"
	"strings"
	"testing"
	"testing/fstest"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/troupe-run/troupe"
	"github.com/troupe-run/troupe/internal/protocol"
	"github.com/troupe-run/troupe/mcp"
	"github.com/troupe-run/troupe/test/kit"
	"github.com/troupe-run/troupe/test/spec/host"
)

const refunds = "---\nname: refunds\ndescription: Refunds customers.\nmetadata: {version: '2'}\n---\n# Refunds\r\n"

// skillFiles are a skill with files of both kinds, a name that needs escapes, and a skill within.
func skillFiles() fstest.MapFS {
	all := fstest.MapFS{}
	for name, text := range map[string]string{
		"SKILL.md": refunds, "a/b.md": "b", "a/c d#.md": "\ufeffé", "a-b/logo.png": "\x89PNG\xff", "a.md": "",
		"tax/SKILL.md": "---\nname: tax\ndescription: Taxes.\n---\n", "tax/r/rates.csv": "1,2\n",
	} {
		all[name] = &fstest.MapFile{Data: []byte(text)}
	}
	return all
}

func noResource(context.Context, *troupe.Call, string, map[string]string) ([]mcp.ResourceContents, error) {
	return nil, nil
}

// What the methods of the extension return.
type (
	skillsPage struct {
		ResultType, NextCursor string
		Skills                 []mcp.Skill
	}
	oneSkill struct {
		ResultType string
		Skill      mcp.Skill
	}
	directoryPage struct {
		NextCursor string
		Resources  []mcp.Resource
	}
)

// resultOf returns the result of a response as a T.
func resultOf[T any](t *testing.T, what, body string) (r T) {
	t.Helper()
	var m struct {
		Result *T
		Error  *struct {
			Code    int
			Message string
		}
	}
	if err := json.Unmarshal([]byte(body), &m); err != nil || m.Result == nil {
		t.Fatalf("%s: %v: %s", what, err, body)
	}
	return *m.Result
}

// TestSkills reads a skill as a host does in each revision: it lists, gets, walks the directories and reads each file,
// whose bytes must be those of the digests.
func TestSkills(t *testing.T) {
	for _, revision := range mcp.Revisions() {
		t.Run(revision.String(), func(t *testing.T) {
			kit.Bubble(t, func(t *testing.T) {
				h := host.New(t, troupe.Options{}, &troupe.ServerOptions{Limits: troupe.Limits{PageSize: 2}})
				all := skillFiles()
				troupe.AddSkill(h.Server, troupe.Skill{Files: all, Path: "acme/billing/refunds", Meta: mcp.Meta{"com.example/x": mcp.Raw(1)}})
				troupe.AddSkill(h.Server, troupe.Skill{Files: fstest.MapFS{"SKILL.md": {Data: []byte("---\nname: last\ndescription: x\n---\n")}}})
				ask := asking(h, revision)

				const capability = `"io.modelcontextprotocol/skills":{"directoryRead":true}`
				if declared := ask("", ""); !strings.Contains(declared, capability) || !strings.Contains(declared, `"resources":{`) {
					t.Errorf("capabilities: %s", declared)
				}
				var skills []mcp.Skill
				for cursor := ""; ; {
					body := ask("skills/list", params("cursor", cursor))
					page := resultOf[skillsPage](t, "skills/list", body)
					if cached := strings.Contains(body, `"ttlMs":0,"cacheScope":"public"`); cached != revision.Stateless() || (page.ResultType == "complete") != revision.Stateless() {
						t.Errorf("skills/list: %s", body)
					}
					skills = append(skills, page.Skills...)
					if cursor = page.NextCursor; cursor == "" {
						break
					}
				}
				var uris []string
				for _, s := range skills {
					uris = append(uris, s.URI)
					body := ask("skills/get", params("uri", s.URI))
					got := resultOf[oneSkill](t, "skills/get", body)
					if diff := cmp.Diff(s, got.Skill); diff != "" || strings.Contains(body, `"ttlMs":0`) != revision.Stateless() || got.ResultType == "complete" != revision.Stateless() {
						t.Errorf("skills/get (-listed +got): %s\n%s", diff, body)
					}
				}
				if diff := cmp.Diff([]string{"skill://acme/billing/refunds/SKILL.md", "skill://acme/billing/refunds/tax/SKILL.md", "skill://last/SKILL.md"}, uris); diff != "" {
					t.Fatalf("skills (-want +got):\n%s", diff)
				}
				host.Equal(t, "frontmatter", string(skills[0].Frontmatter), `{"name":"refunds","description":"Refunds customers.","metadata":{"version":"2"}}`)

				const root = "skill://acme/billing/refunds"
				read := map[string]string{}
				for _, f := range skills[0].Resources {
					data := readSkillFile(t, ask, f.URI)
					if want := fmt.Sprintf("sha256:%x", sha256.Sum256([]byte(data))); f.Digest != want || f.Size != int64(len(data)) {
						t.Errorf("%s: %d bytes of %s, which the entry calls %d of %s", f.URI, len(data), want, f.Size, f.Digest)
					}
					read[f.URI] = data
				}
				want := map[string]string{root + "/a/c%20d%23.md": string(all["a/c d#.md"].Data)}
				for name, f := range all {
					if name != "a/c d#.md" {
						want[root+"/"+name] = string(f.Data)
					}
				}
				if diff := cmp.Diff(want, read); diff != "" {
					t.Errorf("files (-want +got):\n%s", diff)
				}
				if diff := cmp.Diff([]string{root + "/tax/SKILL.md", root + "/tax/r/rates.csv"}, []string{skills[1].Resources[0].URI, skills[1].Resources[1].URI}); diff != "" || len(skills[1].Resources) != 2 {
					t.Errorf("files of the skill within (-want +got):\n%s", diff)
				}

				walked := map[string]string{}
				walk(t, ask, "skill://acme", walked)
				for uri := range read {
					if walked[uri] == "" || walked[uri] == protocol.MIMEDirectory {
						t.Errorf("the directories lack %s", uri)
					}
				}
				for _, dir := range []string{"/billing", "/billing/refunds", "/billing/refunds/a", "/billing/refunds/a-b", "/billing/refunds/tax", "/billing/refunds/tax/r"} {
					if walked["skill://acme"+dir] != protocol.MIMEDirectory {
						t.Errorf("%s: got %q", dir, walked["skill://acme"+dir])
					}
				}
				if len(walked) != len(read)+6 {
					t.Errorf("the directories have %v", walked)
				}
			})
		})
	}
}

// asking returns a function that makes requests as a client of the revision. Without a method it returns the server's capabilities.
func asking(h *host.Host, r mcp.Revision) func(method, params string) string {
	if r.Stateless() {
		m := unchecked(h)
		return func(method, params string) string {
			if method == "" {
				method = "server/discover"
			}
			a, _ := m.Do(method, params)
			return a.Body
		}
	}
	c := h.Unchecked()
	var begun string
	c.Received = func(message string) {
		if begun == "" {
			begun = message
		}
	}
	c.InitializeAs(r.String(), `{}`)
	return func(method, params string) string {
		if method == "" {
			return begun
		}
		return c.Post(host.Method("7", method, params)).Body
	}
}

// unchecked returns a client of 2026-07-28. No official schema has the methods of the extension.
func unchecked(h *host.Host) *host.Stateless {
	return &host.Stateless{T: h.T, Client: h.Unchecked(), Capabilities: `{}`}
}

// params returns params with one member, unless that is empty.
func params(name, value string) string {
	if value == "" {
		return "{}"
	}
	return fmt.Sprintf("{%q:%q}", name, value)
}

func readSkillFile(t *testing.T, ask func(method, params string) string, uri string) string {
	t.Helper()
	r := resultOf[mcp.ReadResourceResult](t, uri, ask("resources/read", params("uri", uri)))
	if len(r.Contents) != 1 || r.Contents[0].URI != uri {
		t.Fatalf("%s: %v", uri, r)
	}
	if text := r.Contents[0].Text; text != nil {
		return *text
	}
	data, err := r.Contents[0].Blob.Bytes()
	if err != nil {
		t.Fatal(err)
	}
	return string(data)
}

// walk notes what lies in a directory, and below, with its type. Each must come once, and as resources/list has it.
func walk(t *testing.T, ask func(method, params string) string, dir string, seen map[string]string) {
	t.Helper()
	for cursor, pages := "", 0; ; pages++ {
		p := fmt.Sprintf(`{"uri":%q}`, dir)
		if cursor != "" {
			p = fmt.Sprintf(`{"uri":%q,"cursor":%q}`, dir, cursor)
		}
		body := ask("resources/directory/read", p)
		page := resultOf[directoryPage](t, dir, body)
		if len(page.Resources) == 0 || len(page.Resources) > 2 || strings.Contains(body, "ttlMs") {
			t.Errorf("%s: %s", dir, body)
		}
		for _, r := range page.Resources {
			rest, ok := strings.CutPrefix(r.URI, dir+"/")
			if _, again := seen[r.URI]; again || !ok || strings.Contains(rest, "/") || r.Name == "" {
				t.Errorf("%s: has %v", dir, r)
			}
			seen[r.URI] = r.MIMEType
			if r.MIMEType == protocol.MIMEDirectory {
				walk(t, ask, r.URI, seen)
			} else if r.Size == nil {
				t.Errorf("%s: %v has no size", dir, r)
			}
		}
		if cursor = page.NextCursor; cursor == "" {
			return
		}
	}
}

// TestSkillRequestsThatAreRefused asks for what is no skill, and no directory, and of a server without skills.
func TestSkillRequestsThatAreRefused(t *testing.T) {
	kit.Bubble(t, func(t *testing.T) {
		h := host.New(t, troupe.Options{}, nil)
		m := unchecked(h)
		for _, method := range []string{"skills/list", "skills/get", "resources/directory/read"} {
			a, id := m.Do(method, `{"uri":"skill://refunds/SKILL.md"}`)
			host.Equal(t, method+" without skills", a.Body, host.Fault(id, mcp.CodeMethodNotFound, "method not found: "+method, ""))
		}
		if a, _ := m.Do("server/discover", `{}`); strings.Contains(a.Body, "skills") {
			t.Errorf("without skills: %s", a.Body)
		}
		troupe.AddResource(h.Server, mcp.Resource{URI: "skill://refunds/a.md", Name: "x"}, noResource)
		if err := troupe.TryAddSkill(h.Server, troupe.Skill{Files: skillFiles()}); err == nil {
			t.Error("a resource is in the way")
		}
		if a, _ := m.Do("server/discover", `{}`); strings.Contains(a.Body, mcp.ExtensionSkills) {
			t.Errorf("a skill that was refused is declared: %s", a.Body)
		}
		h.Server.RemoveResources("skill://refunds/a.md")
		troupe.AddSkill(h.Server, troupe.Skill{Files: skillFiles()})
		if a, _ := m.Do("server/discover", `{}`); !strings.Contains(a.Body, mcp.ExtensionSkills) {
			t.Errorf("with skills: %s", a.Body)
		}
		for _, tt := range []struct{ method, params, want string }{
			{"skills/get", `{"uri":"skill://refunds/a.md"}`, "no skill is served at skill://refunds/a.md"},
			{"skills/get", `{"uri":"skill://refunds"}`, "no skill is served at skill://refunds"},
			{"skills/get", `{"uri":"skill://nobody/SKILL.md"}`, "no skill is served at skill://nobody/SKILL.md"},
			{"skills/get", `{"uri":"skill://REFUNDS/SKILL.md"}`, "no skill is served at skill://REFUNDS/SKILL.md"},
			{"skills/get", `{"uri":"skill://refunds%2FSKILL.md"}`, "no skill is served at skill://refunds%2FSKILL.md"},
			{"skills/get", `{}`, "uri must be an absolute URI"},
			{"skills/get", `{"uri":null}`, "uri must be an absolute URI"},
			{"skills/list", `{"cursor":"x"}`, "invalid cursor"},
			{"resources/directory/read", `{"uri":"skill://refunds/SKILL.md"}`, "skill://refunds/SKILL.md is not a directory resource"},
			{"resources/directory/read", `{"uri":"skill://refunds/"}`, "skill://refunds/ is not a directory resource"},
			{"resources/directory/read", `{"uri":"skill://refund"}`, "skill://refund is not a directory resource"},
			{"resources/directory/read", `{"uri":"skill:/"}`, "skill:/ is not a directory resource"},
			{"resources/directory/read", `{"uri":"skill://refunds/a/../a"}`, "skill://refunds/a/../a is not a directory resource"},
			{"resources/directory/read", `{"uri":"skill://refunds/a","cursor":"x"}`, "invalid cursor"},
			{"resources/read", `{"uri":"skill://refunds/../refunds/SKILL.md"}`, "resource not found"},
		} {
			a, id := m.Do(tt.method, tt.params)
			want := host.Fault(id, mcp.CodeInvalidParams, tt.want, "")
			if tt.method == "resources/read" {
				want = host.Fault(id, mcp.CodeInvalidParams, tt.want, `{"uri":"skill://refunds/../refunds/SKILL.md"}`)
			}
			host.Equal(t, tt.method+" "+tt.params, a.Body, want)
		}
		if a, _ := m.Do("skills/get", `{"uri":"SKILL://refunds/%53KILL.md"}`); !strings.Contains(a.Body, `"uri":"skill://refunds/SKILL.md"`) {
			t.Errorf("another spelling: %s", a.Body)
		}
	})
}

// TestNamesOfSkillFiles reads files by the URIs that relative references lead to.
func TestNamesOfSkillFiles(t *testing.T) {
	kit.Bubble(t, func(t *testing.T) {
		h := host.New(t, troupe.Options{}, nil)
		files := skillFiles()
		for name, uri := range map[string]string{
			"f(1)!$&'*+,;=:@~.md": "f(1)!$&'*+,;=:@~.md", "100% [x].md": "100%25%20%5Bx%5D.md", "é|?#.md": "%C3%A9%7C%3F%23.md",
		} {
			files["r/"+name] = &fstest.MapFile{Data: []byte("found")}
			troupe.AddSkill(h.Server, troupe.Skill{Files: files})
			a, _ := unchecked(h).Do("resources/read", params("uri", "skill://refunds/r/"+uri))
			host.Contains(t, name, a.Body, `"text":"found"`)
			host.Contains(t, name, a.Body, `"uri":"skill://refunds/r/`+uri+`"`)
		}
	})
}

// TestDirectoryCursorOfAnother uses the cursor of one directory in another: it gets what comes behind it, and nothing of the other.
func TestDirectoryCursorOfAnother(t *testing.T) {
	kit.Bubble(t, func(t *testing.T) {
		h := host.New(t, troupe.Options{}, &troupe.ServerOptions{Limits: troupe.Limits{PageSize: 1}})
		troupe.AddSkill(h.Server, troupe.Skill{Files: skillFiles()})
		m := unchecked(h)
		a, _ := m.Do("resources/directory/read", `{"uri":"skill://refunds/a"}`)
		early := resultOf[directoryPage](t, "a", a.Body).NextCursor
		a, _ = m.Do("resources/directory/read", fmt.Sprintf(`{"uri":"skill://refunds/tax","cursor":%q}`, early))
		host.Contains(t, "a cursor of an earlier directory", a.Body, `"uri":"skill://refunds/tax/SKILL.md"`)
		late := resultOf[directoryPage](t, "tax", a.Body).NextCursor
		a, _ = m.Do("resources/directory/read", fmt.Sprintf(`{"uri":"skill://refunds/a","cursor":%q}`, late))
		host.Contains(t, "a cursor of a later directory", a.Body, `"resources":[]`)
	})
}

// TestDirectoriesAreOfSkillsAlone has a resource of the program lie among the files of skills: no directory has it.
func TestDirectoriesAreOfSkillsAlone(t *testing.T) {
	kit.Bubble(t, func(t *testing.T) {
		h := host.New(t, troupe.Options{}, nil)
		troupe.AddSkill(h.Server, troupe.Skill{Files: skillFiles(), Path: "acme/refunds"})
		troupe.AddResource(h.Server, mcp.Resource{URI: "skill://acme/other", Name: "x"}, noResource)
		troupe.AddResource(h.Server, mcp.Resource{URI: "skill://bare/file", Name: "x"}, noResource)
		m := unchecked(h)
		a, id := m.Do("resources/directory/read", `{"uri":"skill://bare"}`)
		host.Equal(t, "a directory without skills", a.Body, host.Fault(id, mcp.CodeInvalidParams, "skill://bare is not a directory resource", ""))
		if a, _ := m.Do("resources/directory/read", `{"uri":"skill://acme"}`); strings.Contains(a.Body, "other") || !strings.Contains(a.Body, "skill://acme/refunds") {
			t.Errorf("got %s", a.Body)
		}
	})
}

// TestSkillsByCaller hides skills: with one, its files and directories are gone, and a skill around it has its files all the same.
func TestSkillsByCaller(t *testing.T) {
	kit.Bubble(t, func(t *testing.T) {
		var items []troupe.Item
		h := host.New(t, troupe.Options{Authenticate: host.User}, &troupe.ServerOptions{Visible: func(p troupe.Principal, i troupe.Item) bool {
			if i.Kind == troupe.ItemSkill {
				items = append(items, i)
			}
			return !strings.Contains(i.Name, "skill:") || i.Kind == troupe.ItemSkill && strings.Contains(i.Name, p.Subject+"/SKILL.md")
		}})
		troupe.AddSkill(h.Server, troupe.Skill{Files: skillFiles(), Meta: mcp.Meta{"m": mcp.Raw(1)}})
		for name, want := range map[string]struct {
			skills    int
			readable  []string
			directory string
		}{
			"refunds": {1, []string{"a.md", "tax/SKILL.md", "tax/r/rates.csv"}, "refunds"},
			"tax":     {1, []string{"tax/SKILL.md", "tax/r/rates.csv"}, "refunds"},
			"nobody":  {0, nil, ""},
		} {
			m := unchecked(h)
			host.As(m.Client, name)
			a, _ := m.Do("skills/list", `{}`)
			page := resultOf[skillsPage](t, name, a.Body)
			if len(page.Skills) != want.skills || !strings.Contains(a.Body, `"cacheScope":"private"`) {
				t.Errorf("%s: %s", name, a.Body)
			}
			for _, file := range []string{"a.md", "tax/SKILL.md", "tax/r/rates.csv"} {
				uri := "skill://refunds/" + file
				a, _ := m.Do("resources/read", params("uri", uri))
				if ok := strings.Contains(strings.Join(want.readable, " "), file); ok != strings.Contains(a.Body, `"contents"`) {
					t.Errorf("%s: %s: %s", name, uri, a.Body)
				}
			}
			for _, s := range []string{"refunds", "refunds/tax"} {
				a, _ := m.Do("skills/get", params("uri", "skill://"+s+"/SKILL.md"))
				if strings.HasSuffix("/"+s, "/"+name) != strings.Contains(a.Body, `"skill"`) {
					t.Errorf("%s: skills/get of %s: %s", name, s, a.Body)
				}
			}
			a, _ = m.Do("resources/directory/read", `{"uri":"skill://refunds"}`)
			if (want.directory != "") != strings.Contains(a.Body, `"resources"`) || name == "tax" && strings.Contains(a.Body, "a.md") {
				t.Errorf("%s: directory: %s", name, a.Body)
			}
			a, _ = m.Do("resources/list", `{}`)
			if name == "nobody" && strings.Contains(a.Body, "skill:") || name == "tax" && strings.Contains(a.Body, "a.md") {
				t.Errorf("%s: resources/list: %s", name, a.Body)
			}
		}
		if len(items) == 0 || items[0].Name != "skill://refunds/SKILL.md" || string(mcp.Raw(items[0].Meta)) != `{"m":1}` {
			t.Errorf("Visible gets %v", items)
		}
	})
}

// TestSkillsHiddenByMeta hides a skill by its Meta, which is all that tells of whom it is for: what lies within is hidden with it.
func TestSkillsHiddenByMeta(t *testing.T) {
	kit.Bubble(t, func(t *testing.T) {
		h := host.New(t, troupe.Options{Authenticate: host.User}, &troupe.ServerOptions{Visible: func(p troupe.Principal, i troupe.Item) bool {
			who, ok := i.Meta["com.example/for"]
			return !ok || string(who) == fmt.Sprintf("%q", p.Subject)
		}})
		troupe.AddSkill(h.Server, troupe.Skill{Files: skillFiles(), Meta: mcp.Meta{"com.example/for": mcp.Raw("admin")}})
		for name, sees := range map[string]bool{"admin": true, "guest": false} {
			m := unchecked(h)
			host.As(m.Client, name)
			for request, sign := range map[[2]string]string{
				{"skills/list", `{}`}: `"uri":"skill://refunds/tax/SKILL.md"`,
				{"skills/get", `{"uri":"skill://refunds/tax/SKILL.md"}`}:        `"skill":{`,
				{"resources/read", `{"uri":"skill://refunds/tax/r/rates.csv"}`}: `"contents"`,
				{"resources/directory/read", `{"uri":"skill://refunds/tax"}`}:   `"resources"`,
				{"resources/list", `{}`}:                                        `skill://`,
				{"resources/read", `{"uri":"skill://refunds/SKILL.md"}`}:        `"contents"`,
			} {
				if a, _ := m.Do(request[0], request[1]); strings.Contains(a.Body, sign) != sees {
					t.Errorf("%s: %v: %s", name, request, a.Body)
				}
			}
			if a, _ := m.Do("resources/list", `{}`); strings.Count(a.Body, "com.example/for") > 1 {
				t.Errorf("%s: the _meta is that of one SKILL.md: %s", name, a.Body)
			}
		}
	})
}

// TestVisibleIsAskedOfSkills counts how often a list of a skill's files asks of the skills: as of one item, not as of each file.
func TestVisibleIsAskedOfSkills(t *testing.T) {
	kit.Bubble(t, func(t *testing.T) {
		asked := map[string]int{}
		h := host.New(t, troupe.Options{}, &troupe.ServerOptions{Visible: func(_ troupe.Principal, i troupe.Item) bool {
			if i.Kind == troupe.ItemSkill {
				asked[i.Name]++
			}
			return strings.HasSuffix(i.Name, "tax/SKILL.md")
		}})
		troupe.AddSkill(h.Server, troupe.Skill{Files: skillFiles()})
		m := unchecked(h)
		for _, request := range [][2]string{{"resources/list", `{}`}, {"skills/list", `{}`}, {"resources/directory/read", `{"uri":"skill://refunds"}`}} {
			clear(asked)
			a, _ := m.Do(request[0], request[1])
			host.Contains(t, request[0], a.Body, "tax")
			if diff := cmp.Diff(map[string]int{"skill://refunds/SKILL.md": 1, "skill://refunds/tax/SKILL.md": 1}, asked); diff != "" {
				t.Errorf("%s (-want +got):\n%s", request[0], diff)
			}
		}
		clear(asked)
		h.Unchecked().Initialize(`{}`)
		if n := asked["skill://refunds/SKILL.md"]; n > 4 { // for the files, and for the skills, when it begins and when it listens
			t.Errorf("initialize asks %d times", n)
		}
	})
}

// TestSkillsThatChange replaces and removes skills under a subscriber.
func TestSkillsThatChange(t *testing.T) {
	kit.Bubble(t, func(t *testing.T) {
		h := host.New(t, troupe.Options{}, nil)
		troupe.AddSkill(h.Server, troupe.Skill{Files: skillFiles()})
		c := h.Unchecked().Initialize(`{}`)
		l := host.Listen(c.Get(""))
		defer l.Close()
		for _, file := range []string{"a.md", "a/b.md"} {
			host.Contains(t, "subscribe", c.Post(host.Method("1", "resources/subscribe", params("uri", "skill://refunds/"+file))).Body, `"result":{}`)
		}
		seen := 0
		step := func(what string, do func(), want ...string) {
			t.Helper()
			do()
			time.Sleep(time.Second)
			if diff := cmp.Diff(want, append([]string(nil), l.Since(seen)...)); diff != "" {
				t.Errorf("%s (-want +got):\n%s", what, diff)
			}
			seen += len(want)
		}
		changed := host.Note("notifications/resources/list_changed", "")
		step("the same again", func() { troupe.AddSkill(h.Server, troupe.Skill{Files: skillFiles()}) })
		step("other bytes, as many", func() {
			files := skillFiles()
			files["a/b.md"].Data = []byte("B")
			troupe.AddSkill(h.Server, troupe.Skill{Files: files})
		}, host.UpdateNote("skill://refunds/a/b.md"), changed)
		host.Contains(t, "what is read", c.Post(host.Method("1", "resources/read", `{"uri":"skill://refunds/a/b.md"}`)).Body, `"text":"B"`)
		step("a file less, and another skill", func() {
			files := skillFiles()
			files["a/b.md"].Data = []byte("B")
			delete(files, "a.md")
			troupe.AddSkill(h.Server, troupe.Skill{Files: files})
			troupe.AddSkill(h.Server, troupe.Skill{Files: skillFiles(), Path: "acme/refunds"})
		}, changed)
		host.Contains(t, "a file that is gone", c.Post(host.Method("1", "resources/read", `{"uri":"skill://refunds/a.md"}`)).Body, `-32002`)
		h.Server.RemoveResources("skill://refunds/SKILL.md")
		h.Server.RemoveSkills("acme", "refunds/tax", "acme/refunds/tax")
		host.Contains(t, "what removes nothing", c.Post(host.Method("1", "resources/read", `{"uri":"skill://refunds/SKILL.md"}`)).Body, `"contents"`)
		step("removed", func() { h.Server.RemoveSkills("refunds", "acme/refunds", "never") }, changed)
		host.Contains(t, "no skills left", c.Post(host.Method("1", "skills/list", "")).Body, `"skills":[]`)
		if body := c.Post(host.Method("1", "resources/list", "")).Body; strings.Contains(body, "skill:") {
			t.Errorf("their files are still there: %s", body)
		}
	})
}

// TestSkillsThatCannotBeAdded registers skills that do not fit, or not beside what is there.
func TestSkillsThatCannotBeAdded(t *testing.T) {
	t.Parallel()
	s := troupe.NewServer(mcp.Implementation{Name: "test", Version: "1"}, nil)
	troupe.AddSkill(s, troupe.Skill{Files: skillFiles(), Path: "acme/refunds"})
	troupe.AddResource(s, mcp.Resource{URI: "skill://taken/refunds/a.md", Name: "x"}, noResource)
	inner, err := fs.Sub(skillFiles(), "tax")
	if err != nil {
		t.Fatal(err)
	}
	for name, tt := range map[string]struct {
		skill troupe.Skill
		want  string
	}{
		"no files":               {troupe.Skill{}, "no files"},
		"a directory outside":    {troupe.Skill{Files: skillFiles(), Dir: "../x"}, "no name that a file system takes"},
		"a directory not there":  {troupe.Skill{Files: skillFiles(), Dir: "x"}, "not exist"},
		"a directory without":    {troupe.Skill{Files: skillFiles(), Dir: "a"}, "no SKILL.md"},
		"another name":           {troupe.Skill{Files: skillFiles(), Path: "acme/returns"}, `ends with "returns"`},
		"a path that leads up":   {troupe.Skill{Files: skillFiles(), Path: "../refunds"}, `".." is no part`},
		"a path without a name":  {troupe.Skill{Files: skillFiles(), Path: "acme//refunds"}, `"" is no part`},
		"a path with escapes":    {troupe.Skill{Files: skillFiles(), Path: "a%2Fb/refunds"}, `"a%2Fb" is no part`},
		"a path with a port":     {troupe.Skill{Files: skillFiles(), Path: "a:1/refunds"}, `"a:1" is no part`},
		"Meta that is no object": {troupe.Skill{Files: skillFiles(), Meta: mcp.Meta{"a": json.RawMessage(`{`)}}, "_meta"},
		"within another":         {troupe.Skill{Files: inner, Path: "acme/refunds/tax"}, `the skill "acme/refunds" lie in one another`},
		"a resource in the way":  {troupe.Skill{Files: skillFiles(), Path: "taken/refunds"}, `another resource "skill://taken/refunds/a.md"`},
	} {
		if err := troupe.TryAddSkill(s, tt.skill); err == nil || !strings.Contains(err.Error(), tt.want) {
			t.Errorf("%s: got %v, want %q", name, err, tt.want)
		}
	}
	for name, err := range map[string]error{
		`skill "acme/refunds"`: troupe.TryAddSkill(s, troupe.Skill{Files: skillFiles(), Path: "acme/refunds"}),
		`skill "x"`:            troupe.TryAddSkill(nil, troupe.Skill{Files: skillFiles(), Path: "x"}),
	} {
		if err == nil || !strings.HasPrefix(err.Error(), "troupe: "+name+": ") {
			t.Errorf("%s, which is there or has no server: %v", name, err)
		}
	}
	if err := troupe.TryAddResource(s, mcp.Resource{URI: "skill://acme/refunds/a.md", Name: "x"}, noResource); err == nil || !strings.Contains(err.Error(), "file of a skill") {
		t.Errorf("a resource in place of a file: %v", err)
	}
	if err := troupe.TryAddSkill(s, troupe.Skill{Files: skillFiles(), Dir: "tax", Path: "x/tax"}); err != nil {
		t.Errorf("a directory below: %v", err)
	}
	for _, method := range []string{"skills/list", "skills/get", "resources/directory/read"} {
		err := troupe.TryAddMethod(s, troupe.Method{Name: method}, func(context.Context, *troupe.Call, struct{}) (struct{}, error) { return struct{}{}, nil })
		if err == nil {
			t.Errorf("%s becomes a method of the program", method)
		}
	}
}

// TestSkillsThatComeLater declares the extension on a server that has no skills yet.
func TestSkillsThatComeLater(t *testing.T) {
	kit.Bubble(t, func(t *testing.T) {
		h := host.New(t, troupe.Options{}, &troupe.ServerOptions{Extensions: map[string]mcp.Object{mcp.ExtensionSkills: nil, "com.example/x": nil}})
		c := h.Unchecked().Initialize(`{}`)
		host.Contains(t, "none yet", c.Post(host.Method("1", "skills/list", "")).Body, `"result":{"skills":[]}`)
		a, _ := unchecked(h).Do("server/discover", `{}`)
		host.Contains(t, "capabilities", a.Body, `"extensions":{"com.example/x":{},"io.modelcontextprotocol/skills":{"directoryRead":true},`)
		troupe.AddSkill(h.Server, troupe.Skill{Files: skillFiles()})
		host.Contains(t, "now", c.Post(host.Method("1", "skills/list", "")).Body, `"name":"refunds"`)
	})
}
