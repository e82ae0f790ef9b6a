package quota

import "testing"

func TestNetwork(t *testing.T) {
	t.Parallel()
	for _, tt := range []struct{ address, want string }{
		{"192.0.2.1", "192.0.2.1"},
		{"192.0.2.2", "192.0.2.2"},
		{"::ffff:192.0.2.1", "192.0.2.1"},
		{"2001:db8:1:2:3:4:5:6", "2001:db8:1:2::"},
		{"2001:db8:1:2:ffff:ffff:ffff:ffff", "2001:db8:1:2::"},
		{"2001:db8:1:3::", "2001:db8:1:3::"},
		{"::1", "::"},
		{"fe80::1%eth0", "fe80::"},
		{"", "invalid IP"},
		{"@", "invalid IP"},
		{"pipe", "invalid IP"},
		{"192.0.2.1:80", "invalid IP"},
		{"300.0.0.1", "invalid IP"},
		{"localhost", "invalid IP"},
	} {
		if got := networkOf(tt.address).String(); got != tt.want {
			t.Errorf("%q counts as %s, want %s", tt.address, got, tt.want)
		}
	}
}
