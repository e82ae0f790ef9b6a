package main

import (
	"bytes"
	"log/slog"
	"net"
	"slices"
	"strings"
	"testing"

	"github.com/troupe-run/troupe/mcp"
)

// TestRevisionSettings gives revisions by flag and by file.
func TestRevisionSettings(t *testing.T) {
	t.Parallel()
	some := []mcp.Revision{mcp.Revision20251125, mcp.Revision20250618}
	for _, tt := range []struct {
		file string
		args []string
		want []mcp.Revision // in the order in which they were given
		bad  []string       // parts of the error
	}{
		{"memory: true\n", nil, nil, nil},
		{"memory: true\n", []string{"--revisions", "2025-11-25, 2025-06-18"}, some, nil},
		{"memory: true\nrevisions: [2025-11-25, \"2025-06-18\"]\n", nil, some, nil},
		{"memory: true\nrevisions: [2026-07-28]\n", []string{"--revisions", "2025-11-25,2025-06-18"}, some, nil},
		{"memory: true\n", []string{"--revisions", ""}, nil, []string{"revisions is empty: want some of 2024-11-05,2025-03-26,2025-06-18,2025-11-25,2026-07-28"}},
		{"memory: true\nrevisions: []\n", nil, nil, []string{"revisions is empty"}},
		{"memory: true\nrevisions: 2025-11-25\n", nil, nil, []string{":2:", "revisions: want a list"}},
		{"memory: true\nrevisions: [2025-11-25, 2031-01-01, 2025-11-25, x]\n", nil, nil, []string{`revisions: "2031-01-01" is none, 2025-11-25 comes twice, "x" is none: want some of 2024-11-05,`}},
	} {
		s, err := parsed(t, tt.file, tt.args...)
		if tt.bad != nil {
			for _, part := range tt.bad {
				if err == nil || !strings.Contains(err.Error(), part) {
					t.Errorf("%q %q: got %v, want %q", tt.file, tt.args, err, part)
				}
			}
			continue
		}
		if err != nil {
			t.Errorf("%q %q: %v", tt.file, tt.args, err)
			continue
		}
		if got := s.options().Revisions; !slices.Equal(got, tt.want) {
			t.Errorf("%q %q: got %v, want %v", tt.file, tt.args, got, tt.want)
		}
	}
}

// TestBannerOfRevisions looks at what a person is told to try: what the server speaks, and nothing else.
func TestBannerOfRevisions(t *testing.T) {
	t.Parallel()
	addr := &net.TCPAddr{IP: net.IPv4(127, 0, 0, 1), Port: 80}
	for spoken, tt := range map[string]struct{ shown, hidden []string }{
		"":                      {[]string{"/sse to a", `"protocolVersion":"2025-11-25"`}, []string{"revisions", "server/discover"}},
		"2025-06-18,2024-11-05": {[]string{"revisions 2024-11-05, 2025-06-18\n", "/sse to a", `"protocolVersion":"2025-06-18"`}, []string{"server/discover"}},
		"2026-07-28":            {[]string{"revisions 2026-07-28\n", "-H 'MCP-Protocol-Version: 2026-07-28' -H 'Mcp-Method: server/discover'"}, []string{"/sse", `"initialize"`}},
	} {
		s := &settings{}
		if spoken != "" {
			s.revisions = revisions{text: spoken, set: true}
		}
		if err := s.revisions.check(); err != nil {
			t.Fatal(err)
		}
		var text, log bytes.Buffer
		s.announce(&text, nil, "n", addr, nil)
		for _, part := range tt.shown {
			if !strings.Contains(text.String(), part) {
				t.Errorf("%s: no %q in %s", spoken, part, &text)
			}
		}
		for _, part := range tt.hidden {
			if strings.Contains(text.String(), part) {
				t.Errorf("%s: %q in %s", spoken, part, &text)
			}
		}
		s.logFormat = "json"
		s.announce(nil, slog.New(slog.NewJSONHandler(&log, nil)), "n", addr, nil)
		if want := `"revisions":"` + s.revisions.named() + `"`; !strings.Contains(log.String(), want) {
			t.Errorf("%s: no %s in %s", spoken, want, &log)
		}
	}
}
