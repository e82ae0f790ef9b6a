package limits

import "testing"

func TestDefaultStore(t *testing.T) {
	t.Parallel()
	for _, tt := range []struct {
		memory         int64
		disk, inMemory int64
	}{
		{0, 16 * mib, 16 * mib},
		{64 * mib, 48 * mib, 16 * mib},
		{512 * mib, 387 * mib, 96 * mib},
		{gib, 775 * mib, 192 * mib},
		{4 * gib, 3103 * mib, 769 * mib},
		{10 * gib, 7757 * mib, gib},
		{11 * gib, 8 * gib, gib},
		{1 << 40, 8 * gib, gib},
	} {
		if got := DefaultStore(tt.memory, true); got != tt.disk {
			t.Errorf("with %d MiB of memory the store has %d MiB, want %d", tt.memory/mib, got/mib, tt.disk/mib)
		}
		if got := DefaultStore(tt.memory, false); got != tt.inMemory {
			t.Errorf("with %d MiB of memory the store in it has %d MiB, want %d", tt.memory/mib, got/mib, tt.inMemory/mib)
		}
		for _, onDisk := range []bool{false, true} {
			if need := StoreMemory(DefaultStore(tt.memory, onDisk), onDisk); need > tt.memory/4 && tt.memory > 200*mib {
				t.Errorf("on disk %t: a store for %d MiB needs %d MiB", onDisk, tt.memory/mib, need/mib)
			}
		}
	}
	if disk, all := StoreMemory(1000*mib, true), StoreMemory(1000*mib, false); disk/mib != 330 || all != disk+1000*mib {
		t.Errorf("1,000 MiB on disk need %d MiB, in memory %d, want 330 and 1,000 more", disk/mib, all/mib)
	}
}
