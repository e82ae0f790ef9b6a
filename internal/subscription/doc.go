// Package subscription knows who wants updates of which resource, in one process. Each
// resource of a server that somebody subscribed to has an actor, which gathers updates that
// come soon after one another, and ends with its last subscriber. What a subscriber is, and
// how an update gets to its client, is the business of package actors.
//
//	Table ──Follow──▶ subscription ──Wants──▶ Subscriber
//	      ──Updated─▶              ──Push───▶
package subscription
