package main

import (
	"encoding/json"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/spf13/pflag"
)

// outputOf runs a command of the program, and returns its exit code and what it writes.
func outputOf(args ...string) (code int, stdout, stderr string) {
	r := runCommand(args...)
	return r.code, r.stdout, r.stderr
}

// TestConfigCheck has good settings, and bad ones whose source it names.
func TestConfigCheck(t *testing.T) {
	file := writeConfig(t, "memory: true\npage-size: 5\n")
	t.Setenv("TROUPE_CONFIG", file)
	t.Setenv("TROUPE_LISEN", "127.0.0.1:80")
	t.Setenv("TROUPE_PORT", "tcp://10.0.0.1:8080")
	if code, out, errs := outputOf("config", "check"); code != 0 || out != "ok\n" || !strings.Contains(errs, "TROUPE_LISEN has no effect: there is no such setting; did you mean TROUPE_LISTEN?\n") || strings.Contains(errs, "TROUPE_PORT") {
		t.Errorf("it ends with %d, %q and %q", code, out, errs)
	}
	for args, want := range map[string]string{
		"--listen 0.0.0.0:80":                            "other machines can reach 0.0.0.0:80 without authentication: ",
		"--set page-size=0":                              "(set by --set page-size)",
		"--set weight=nobody=0":                          "(set by --set weight)",
		"--public-url ftp://a.example":                   "(set by --public-url)",
		"--config absent.yaml":                           "absent.yaml: no such file",
		"--bogus":                                        "unknown flag",
		"--memory=false --nats http://a":                 "(set by --nats)",
		"--memory=false --nats nats://a --nats-creds no": "nats-creds cannot be read: open no: no such file or directory (set by --nats-creds)",
	} {
		if code, _, errs := outputOf(append([]string{"config", "check"}, strings.Fields(args)...)...); code != 2 || !strings.Contains(errs, want) {
			t.Errorf("%s: it ends with %d and %q, want %q", args, code, errs, want)
		}
	}
	t.Setenv("TROUPE_LISTEN", "0.0.0.0:80")
	if code, _, errs := outputOf("config", "check"); code != 2 || !strings.Contains(errs, "(set by TROUPE_LISTEN)") {
		t.Errorf("it ends with %d and %q", code, errs)
	}
}

// TestConfigShow shows settings as a file. Read again, it says the same, but for the secrets, which are nowhere.
func TestConfigShow(t *testing.T) {
	secret := filepath.Join(t.TempDir(), "secret")
	if err := os.WriteFile(secret, []byte("hunter3"), 0o600); err != nil {
		t.Fatal(err)
	}
	file := writeConfig(t, "nats: nats://user:hunter1@127.0.0.1:4222\nallow-host: [a.example, \"*\"]\nweight: [192.0.2.7=4]\ncall-rate: 7.5\nretry: 90s\nlisten: 127.0.0.1:80\npublic-url: https://mcp.example.com\n"+
		"revisions: [\"2025-06-18\", \"2025-11-25\"]\nauth:\n  claims: [email]\n  issuers:\n  - url: https://id.example.com\n    introspection: {url: https://id.example.com/i, client-id: c, client-secret-file: "+secret+"}\n")
	t.Setenv("TROUPE_CONFIG", file)
	t.Setenv("TROUPE_MAX_BODY", "64MiB")
	t.Setenv("TROUPE_TRUSTED_PROXY", "10.0.0.0/8,127.0.0.1")
	code, out, errs := outputOf("config", "show", "--node", "one", "--set", "page-size=7")
	if code != 0 || errs != "" {
		t.Fatalf("it ends with %d and %q", code, errs)
	}
	for _, want := range []string{
		"\n# nats: \"nats://127.0.0.1:4222\" # " + file + ":1, and a secret is left out\n", "\nallow-host: [a.example, \"*\"] # " + file + ":2\n", "\nweight: [\"192.0.2.7=4\"] # " + file + ":3\n", "\ncall-rate: 7.5 # " + file + ":4\n",
		"\nretry: 1m30s # ", "\nmax-body: 64MiB # TROUPE_MAX_BODY\n", "\ntrusted-proxy: [\"10.0.0.0/8\", \"127.0.0.1/32\"] # TROUPE_TRUSTED_PROXY\n", "\nnode: one # --node\n", "\npage-size: 7 # --set page-size\n",
		"\nlog-level: info # default\n", "\nmemory: false # default\n", "\n# max-store: # default\n", "\n# " + file + ":9\nauth:\n  issuers:\n", "        client-secret-file: " + secret + "\n",
		"\nrevisions: [\"2025-06-18\", \"2025-11-25\"] # ",
	} {
		if !strings.Contains(out, want) {
			t.Errorf("no %q in\n%s", want, out)
		}
	}
	var before, again settings
	for s, args := range map[*settings][]string{
		&before: {"--config", file, "--node", "one", "--set", "page-size=7"},
		&again:  {"--config", writeConfig(t, out), "--nats", "nats://user:hunter1@127.0.0.1:4222"},
	} {
		environ := []string{}
		if s == &before {
			environ = []string{"TROUPE_MAX_BODY=64MiB", "TROUPE_TRUSTED_PROXY=10.0.0.0/8,127.0.0.1"}
		}
		got, err := parsedIn(t, environ, "", args...)
		if err != nil {
			t.Fatalf("%v, for\n%s", err, out)
		}
		*s = *got
	}
	before.table.VisitAll(func(f *pflag.Flag) {
		if got := again.table.Lookup(f.Name).Value.String(); got != f.Value.String() {
			t.Errorf("%s is %q, and was %q", f.Name, got, f.Value)
		}
	})
	if b, a := before.options().Auth, again.options().Auth; len(a.Issuers) != 1 || a.Issuers[0].Introspection.ClientSecret != b.Issuers[0].Introspection.ClientSecret || a.Claims[0] != "email" {
		t.Errorf("the section is %+v, and was %+v", a, b)
	}

	code, form, errs := outputOf("config", "show", "--json", "--auth-issuer", "https://other.example.com")
	var all []shownSetting
	if err := json.Unmarshal([]byte(form), &all); code != 0 || err != nil {
		t.Fatalf("it ends with %d and %q: %v", code, errs, err)
	}
	shown := make(map[string]shownSetting)
	for _, s := range all {
		shown[s.Name] = s
	}
	if len(shown) < 80 || shown["max-body"].Source != "TROUPE_MAX_BODY" || shown["nats"].Value != "nats://127.0.0.1:4222" || !shown["nats"].Secret || shown["memory"].Value != false || shown["shards"].Value != 0.0 || shown["data"].Value != nil {
		t.Errorf("as JSON:\n%s", form)
	}
	if section, ok := shown["auth"].Value.(map[string]any); !ok || section["issuers"] != nil || section["claims"] == nil {
		t.Errorf("the section beside --auth-issuer is %v", shown["auth"].Value)
	}
	for _, part := range []string{"hunter1", "hunter3"} {
		if strings.Contains(out+form, part) {
			t.Errorf("it shows the secret %s", part)
		}
	}
}

// TestConfigShowKeepsBrokenURLs shows nothing of URLs whose password is not written as it must be.
func TestConfigShowKeepsBrokenURLs(t *testing.T) {
	for _, url := range []string{"nats://hunter/2@127.0.0.1:4222", "nats://a:hunter/2@127.0.0.1:4222", "nats://hunter,2@127.0.0.1:4222", "nats://127.0.0.1:4222,nats://hunter?2@127.0.0.1:4223", "hunter:2@127.0.0.1"} {
		for _, form := range []string{"--json=false", "--json"} {
			code, out, errs := outputOf("config", "show", form, "--nats", url)
			if strings.Contains(out+errs, "hunter") || code == 0 && strings.Contains(out, "127.0.0.1:422") {
				t.Errorf("%s: it ends with %d, %q, and shows\n%s", url, code, errs, out)
			}
		}
	}
	if _, out, _ := outputOf("config", "show", "--nats", "nats://hunter:2@127.0.0.1:4222,nats://127.0.0.1:4223"); !strings.Contains(out, "\n# nats: \"nats://127.0.0.1:4222,nats://127.0.0.1:4223\" # --nats, and a secret is left out\n") {
		t.Errorf("it shows\n%s", out)
	}
}
