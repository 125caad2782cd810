// Package proptest holds properties that read better than a table: random walks of a
// generator and of lease stores beside a model that is too simple to be wrong. It is a
// module of its own, so that pgregory.net/rapid stays out of the others.
//
// A walk that fails is shrunk, printed, and kept in testdata/rapid; -rapid.checks sets how
// many are tried.
package proptest
