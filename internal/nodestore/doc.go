// Package nodestore keeps in a node of package cluster what other packages declare in words of
// their own: the records of API keys and of revocations, the keys of issuers, and tasks.
package nodestore
