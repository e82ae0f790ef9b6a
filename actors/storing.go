package actors

import (
	"time"

	"github.com/troupe-run/troupe/codec"
	"github.com/troupe-run/troupe/internal/limits"
	"github.com/troupe-run/troupe/internal/quota"
	"github.com/troupe-run/troupe/internal/session"
)

// storable decides whether so many bytes more may be stored for a client, and charges them
// to its account for as long as they last. What is nearly full takes nothing new, so that
// what is there can go on. From three quarters on nobody gets more who has a sixteenth:
// no client keeps all others from the store, however little else it does.
func (d *accounts) storable(a *quota.Account, b Budget, bytes int, life time.Duration) Reason {
	now := time.Now()
	switch used, limit := d.node.store.Use(b); {
	case nearlyAll(used, limit):
		return StoreFull
	case limit > 0 && used > limit/4*3 && a.Used[b].Amount(now) > limit/limits.StoreShare.Value():
		return StoreOfPrincipal
	}
	a.Used[b].Add(now, int64(bytes), max(life, time.Second))
	return admitted
}

// gone gives back what storable has charged for a session that is not stored any more.
func (d *accounts) gone(in *Input, rec *session.Record, life time.Duration) {
	if data, err := codec.Marshal(rec); err == nil {
		d.Of(in.Tenant, in.Address).Used[SessionBudget].Add(time.Now(), -int64(len(data)), max(life, time.Second))
	}
}

// nearFull reports that nobody may store anything new.
func (d *accounts) nearFull(b Budget) bool {
	return nearlyAll(d.node.store.Use(b))
}

// nearlyAll reports that nine tenths of a budget are in use; a limit of 0 is not known.
func nearlyAll(used, limit int64) bool { return limit > 0 && used > limit/10*9 }
