// Package sim runs fleets of the real generators and leases in one process and in
// virtual time, and tries to make two equal IDs.
//
// A run is a seed. It draws clocks that are skewed, stepped and frozen; requests and
// answers that are late, lost or doubled, and writes that land long after their sender
// gave up; pauses in which a process stands still at a reading of its clock or an answer
// of its store; kills, restarts, clean closes, and partitions. Every worker draws from a
// stream of its own, so that a seed draws the same faults however goroutines are
// scheduled.
//
// Checked for every ID: positive, greater than the one before of its generator, never
// seen, and inside a grant that the history of the store shows its owner to have had.
// Checked at the end, when all faults are over: every worker mints again within a bound.
//
// A run must be inside a testing/synctest bubble.
package sim
