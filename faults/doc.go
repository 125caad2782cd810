// Package faults injects faults into real worker processes on real stores, and looks for
// two equal IDs.
//
// A test starts a store's server and some processes of the program in worker/, which
// lease codes on that store, mint IDs all the time and print every one. The test kills
// them, stops and resumes them, cuts their network, kills the server, turns their clocks,
// and enters each ID into one ledger, which fails on the first that repeats or that lies
// outside the grant that its holder had. At the end each ceiling that was ever used is
// held against what the store says.
//
// With -faults.write the tests write their results into docs/faults.md and docs/stores.md.
package faults
