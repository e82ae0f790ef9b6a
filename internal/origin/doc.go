// Package origin carries an HTTP request to a pipe: package troupetest gives its clients a
// header and a principal by it, which a real pipe has not.
package origin
