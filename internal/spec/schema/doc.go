// Package schema has the black-box tests of tools' schemas: that an inferred schema is
// the schema of the JSON which goes over the wire.
package schema
