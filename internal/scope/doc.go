// Package scope has what OAuth scopes of items need: which texts are scopes, what a request lacks, and how a client is told of it.
//
// A value of the package is never changed once it is made, and any goroutine may use it.
package scope
