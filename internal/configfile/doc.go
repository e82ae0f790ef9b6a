// Package configfile reads what of a configuration file is more than the value of a flag: the section auth, which says whose tokens count.
//
// It reads what a YAML parser has made of the file, strictly: a key that nothing reads, one that comes twice, and a value of another kind than its
// key wants are an [Error], which names the line and where it stands in the section. A number or a truth value is no text, also where it would read like one, and neither
// an anchor, an alias nor a tag has a meaning. What an error says has no value of the file but for names of keys and of files, as secrets stand there.
//
// All functions may be called from any goroutine.
package configfile
