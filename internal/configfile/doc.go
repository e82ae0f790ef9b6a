// Package configfile reads the configuration file of the command: settings, each of one kind of
// value, and the section auth, which says whose tokens count. It writes texts and the section as such a
// file has them, without secrets, and reads and writes sizes.
//
// It is strict: a key that nothing reads, one that comes twice, and a value of another kind than
// its key wants are an [Error], which names the line and the place in the file. A number or a truth
// value is no text, also where it would read like one, and neither an anchor, an alias nor a tag
// has a meaning. The error of a value says nothing of the value, which may be a secret, unless the
// function that takes it does.
//
// All functions may be called from any goroutine.
package configfile
