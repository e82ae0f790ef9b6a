// Package subscriptions tests over the wire how clients hear of changes: resource subscriptions, changed lists, and
// subscriptions/listen.
package subscriptions
