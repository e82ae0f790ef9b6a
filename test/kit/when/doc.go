// Package when says which tests run when: with -short, under the race detector, in the gate or at night only. It needs nothing but package testing, so that tests of
// small packages, and fuzz targets, can use it. It is for tests only.
package when
