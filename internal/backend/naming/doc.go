// Package naming says what the items of backends are called behind an endpoint: tools and prompts by a prefix, resources
// by their own URIs. All of it are functions of their arguments alone, so that a name never changes because another
// backend comes or goes, or answers late.
package naming
