// Package scope has what OAuth scopes of items need: which texts are scopes, and how a client is told of one that lacks where no metadata does.
//
// A value of the package is never changed once it is made, and any goroutine may use it.
package scope
