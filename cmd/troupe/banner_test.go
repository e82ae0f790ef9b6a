package main

import (
	"bytes"
	"log/slog"
	"net"
	"runtime/debug"
	"strings"
	"testing"

	"github.com/troupe-run/troupe"
)

// TestCodecIsShown looks for the path of payloads in all places where an operator looks for it.
func TestCodecIsShown(t *testing.T) {
	t.Parallel()
	path := troupe.Codec()
	if path != "sonic native" && path != "json/v2" {
		t.Errorf("the path is %q", path)
	}
	if got := versionText(); !strings.Contains(got, "\ncodec: "+path+"\n") {
		t.Errorf("troupe version prints\n%s", got)
	}
	addr := &net.TCPAddr{IP: net.IPv4(127, 0, 0, 1), Port: 1}
	for format, want := range map[string]string{"text": "  codec     " + path + "\n", "json": `"codec":"` + path + `"`} {
		var out bytes.Buffer
		s := &settings{logFormat: format}
		s.announce(&out, slog.New(slog.NewJSONHandler(&out, nil)), "n1", addr, nil)
		if !strings.Contains(out.String(), want) {
			t.Errorf("with --log-format %s: no %q in\n%s", format, want, &out)
		}
	}
}

// TestCommitLine names the commit that a program is of, where Go knows it.
func TestCommitLine(t *testing.T) {
	t.Parallel()
	commit := debug.BuildSetting{Key: "vcs.revision", Value: "1234abcd"}
	at := debug.BuildSetting{Key: "vcs.time", Value: "2026-11-28T10:23:49Z"}
	for _, tt := range []struct {
		settings []debug.BuildSetting
		want     string
	}{
		{nil, ""},
		{[]debug.BuildSetting{{Key: "-trimpath", Value: "true"}}, ""},
		{[]debug.BuildSetting{commit, at, {Key: "vcs.modified", Value: "false"}}, "commit 1234abcd of 2026-11-28T10:23:49Z\n"},
		{[]debug.BuildSetting{commit, at, {Key: "vcs.modified", Value: "true"}}, "commit 1234abcd of 2026-11-28T10:23:49Z, with changes that are in no commit\n"},
	} {
		if got := commitLine(tt.settings); got != tt.want {
			t.Errorf("got %q, want %q", got, tt.want)
		}
	}
}

// TestBannerOfMetrics says where the metrics are, or how to have them where nobody would get them.
func TestBannerOfMetrics(t *testing.T) {
	t.Parallel()
	for _, tt := range []struct {
		ip   string
		s    settings
		want string
	}{
		{"127.0.0.1", settings{}, "http://127.0.0.1:80/metrics"},
		{"0.0.0.0", settings{}, "http://127.0.0.1:80/metrics"},
		{"192.0.2.1", settings{}, "not served: set --health-listen, or public-metrics"},
		{"192.0.2.1", settings{publicMetrics: true}, "http://192.0.2.1:80/metrics"},
		{"192.0.2.1", settings{healthListen: "192.0.2.1:90"}, "http://192.0.2.1:90/metrics"},
	} {
		var b strings.Builder
		tt.s.announce(&b, nil, "n", &net.TCPAddr{IP: net.ParseIP(tt.ip), Port: 80}, nil)
		if !strings.Contains(b.String(), "metrics   "+tt.want+"\n") {
			t.Errorf("%s, %+v: want %s in %s", tt.ip, tt.s, tt.want, b.String())
		}
	}
}

// TestBannerOfCallers says who is let in, under which URL, and how they show it.
func TestBannerOfCallers(t *testing.T) {
	t.Parallel()
	const header = `-H "Authorization: Bearer $TROUPE_TOKEN"`
	for _, tt := range []struct {
		s       settings
		has, no []string
	}{
		{settings{}, []string{"Give the first URL to"}, []string{"callers", header}},
		{settings{apiKeys: true}, []string{"callers   API keys\n", header}, []string{"anybody"}},
		{
			settings{authIssuers: []string{"https://a.example", "https://b.example"}, publicURL: "https://mcp.example.com", apiKeys: true},
			[]string{"callers   access tokens of https://a.example, access tokens of https://b.example, API keys\n", header, "Give https://mcp.example.com/mcp to", "curl -i http://127.0.0.1:80/mcp"}, nil,
		},
		{settings{apiKeys: true, allowAnonymous: true}, []string{"callers   API keys, anybody\n"}, []string{header}},
	} {
		var b strings.Builder
		tt.s.announce(&b, nil, "n", &net.TCPAddr{IP: net.IPv4(127, 0, 0, 1), Port: 80}, nil)
		for _, want := range tt.has {
			if !strings.Contains(b.String(), want) {
				t.Errorf("%+v: no %q in %s", tt.s, want, b.String())
			}
		}
		for _, no := range tt.no {
			if strings.Contains(b.String(), no) {
				t.Errorf("%+v: %q in %s", tt.s, no, b.String())
			}
		}
	}
}
