package quota

import "math"

// MostWeight is the largest weight of a client.
const MostWeight = 1000

// Client names an account: a tenant, or an address where many clients share a tenant.
type Client struct{ Tenant, Address string }

// Weights are the weights of clients that have another one than 1: of what is scarce, a client gets so many times what others
// get. They are from 1 to [MostWeight].
type Weights map[Client]int

// weightOf is the weight of an account.
func (w Weights) weightOf(k key) int64 {
	if len(w) == 0 {
		return 1
	}
	c := Client{Tenant: k.tenant}
	if k.from.IsValid() {
		c.Address = k.from.String()
	}
	return int64(min(max(w[c], 1), MostWeight))
}

// partOf is what of limit a client of some weight gets where the weights of all add up to sum.
func partOf(limit, weight, sum int64) int64 {
	if weight >= sum {
		return limit
	}
	if limit > math.MaxInt64/MostWeight {
		return limit / sum * weight
	}
	return limit * weight / sum
}
