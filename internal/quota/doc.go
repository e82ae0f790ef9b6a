// Package quota decides how much of a process each client may use. It counts what clients
// have in use. It knows neither what they use it for nor how they learn of a refusal: its
// owner says what an account's counts and buckets stand for.
//
// [Accounts] keeps an [Account] for each tenant, and for each address (IPv6: each /64)
// of clients that share a tenant. An account has
//
//   - its requests in flight, at most [Limits.Each];
//   - counts of other things in use ([Account.Held]), which the owner compares with its
//     limits by [ExceedsLimit];
//   - token buckets ([Account.Buckets], [Bucket]) for how often something may be begun;
//   - the bytes that are held for it ([Accounts.Charge]);
//   - a turn among the others that wait for one of few places ([Accounts.Turns], [Turns]);
//   - a pace for bytes that come back by themselves ([Pace]);
//   - usages ([Account.Used], [Usage], [Lasting]) of things that come back with time, such as room in a store.
//
// [Accounts.AdmitRequest] also gives out [Limits.Places], which all requests in flight share.
// When more than three quarters are in use, an account gets no more than an equal
// share: Limits.Places divided by the accounts that have a request in flight or have
// asked for a place within two seconds. An account with a weight counts as so many ([Weights]).
//
// [Accounts.Charge] shares [Limits.Bytes] in the same way. An account may hold twice what is left
// beside it, and the last eighth is for accounts that hold little.
//
// [Accounts.ReportShares] says what clients use of this process, and [Accounts.HearShares] takes what they use
// of others: with a report a second a client has about the limits of one process however many it
// uses.
//
// Two that have no accounts share places among clients, and count what they have begun: [Places]
// gives work places by turns and has lines for what finds none, and [Census] counts by client what
// lasts.
//
// # Accounts that are dropped
//
// An account with nothing in use and full buckets is as good as a new one.
// [Accounts.DropStale] drops it. A caller that counts something on an account must therefore
// ask afterwards whether it was dropped meanwhile ([Account.Dropped]), and if so count on
// the account that it finds now. AdmitRequest, EnterRequest and AddHeld fail in that case:
//
//	for {
//		a := accounts.Of(tenant, address)
//		if no, ok := accounts.AdmitRequest(a); ok {
//			return a, no
//		}
//	}
//
// Finding an account and admission allocate nothing and take only the lock of a part of
// the table, for reading; a [Memo] spares that. Any goroutine may call all functions and
// methods except DropStale. docs/design/008-accounts.md says why it is so.
package quota
