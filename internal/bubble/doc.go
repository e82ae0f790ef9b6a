// Package bubble runs a test of a whole server in virtual time. Package troupetest offers that to users, and the tests here
// use it.
package bubble
