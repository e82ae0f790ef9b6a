// Package quota decides how much of a process each client may use. It counts what
// clients have in use, and knows neither what they use it for nor how they are told of
// a refusal: its owner says what an account's counts and buckets stand for.
//
// [Accounts] keeps an [Account] for each tenant, and for each address (IPv6: each /64)
// of clients that share a tenant. An account has
//
//   - its requests in flight, at most [Limits.Each];
//   - counts of other things in use ([Account.Held]), which the owner compares with its
//     limits by [Over];
//   - token buckets ([Account.Buckets], [Bucket]) for what may be begun so often;
//   - usages ([Account.Used], [Usage]) of what comes back with time, as room in a store.
//
// [Accounts.Admit] also gives out [Limits.Places], which all requests in flight share.
// When more than three quarters are in use, an account gets no more than an equal
// share: Limits.Places divided by the accounts that have a request in flight or have
// asked for a place within two seconds.
//
// # Accounts that nobody needs
//
// An account with nothing in use and full buckets is as good as a new one.
// [Accounts.Settle] drops it. Whoever counts something on an account therefore asks
// afterwards whether it was dropped meanwhile ([Account.Dropped]), and if so counts on
// the account that is found now; Admit, Enter and Hold fail in that case:
//
//	for {
//		a := accounts.Of(tenant, address)
//		if no, ok := accounts.Admit(a); ok {
//			return a, no
//		}
//	}
//
// Finding an account and admission allocate nothing and take only the lock of a part of
// the table, for reading; a [Memo] spares that. All functions and methods but Settle may
// be called from any goroutine. docs/design/008-accounts.md says why it is so.
package quota
