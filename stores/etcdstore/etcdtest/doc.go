// Package etcdtest holds the tests of package etcdstore on real servers, and nothing else.
//
// It is a module of its own, because the servers bring some fifty modules along: a program
// that uses etcdstore would else find them in its module graph, and have the versions of
// those that it shares raised by tests that it never runs.
package etcdtest
