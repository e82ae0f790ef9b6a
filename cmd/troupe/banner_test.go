package main

import (
	"net"
	"strings"
	"testing"
)

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
		{"192.0.2.1", settings{}, "not served: set --health-listen or --public-metrics"},
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
