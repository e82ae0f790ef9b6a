// Package chart renders the Helm chart of deploy/helm/troupe as Helm does, by its library, and decodes
// what comes of it into the types of Kubernetes, of the Gateway API and of the Prometheus Operator. It is
// for the tests of deploy: those here hold a matrix of values to files and to a policy, those of
// deploy/kubelet run the pods.
//
// Decoding is strict: a field that a type does not have, or that comes twice, is an error, as it is for an
// API server that validates strictly. What an API server judges beyond types is judged by the tests as far
// as the chart can get it wrong: names, ports, volumes, selectors.
//
// A Chart may be used by several goroutines at once.
package chart
