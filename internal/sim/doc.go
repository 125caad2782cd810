// Package sim runs fleets of the real generators, leases and mark keepers in one process
// and in virtual time, and tries to make two equal IDs.
//
// A run is a seed. It draws the fleet: from three workers on four codes, where codes change
// hands all the time, to four regions of two hundred; leases in a store that keeps its word,
// with or without a clock of its own, leases in a store that forgets, or that is restored
// from old backups and fenced, or fixed codes with marks; the layout, down to two IDs in a
// tick of half a second. And it draws what happens to the fleet: clocks that are skewed,
// drift, step and freeze; requests and answers that are late, lost or doubled, connections
// that break after the write, and writes that land long after their sender gave up; pauses
// in which a process stands still at a reading of its clock or an answer of its store;
// kills, restarts, clean closes, also under load; partitions of a worker and of a region; an
// operator who fences codes and releases expired ones, by a clock that is wrong, while
// everybody is at work.
//
// Checked of every ID: positive, greater than all that its generator returned before the
// call, never seen, and inside a grant (or a mark) that the history of the store shows its
// owner to have had when the ID was handed out, and not to have given back. Of the history:
// no nonce comes back, tokens rise by one, a ceiling is lowered by nobody but its owner's
// release, which is the last that it writes, and not below its floor. Of time: no call
// takes longer than its context has; and when the faults are over, every worker mints
// within patience, unless its own clock had run ahead, or such clocks hold every code of
// its region. A store that forgets or is restored is held against uniqueness and order alone.
//
// Every worker draws from a stream of its own, so that a seed draws the same faults however
// goroutines are scheduled. Nonces, jitter and the order of goroutines are the product's and
// the runtime's: a seed that fails does so most times, not every time, and is replayed with
// -count.
//
// What was reached is counted, faults drawn and states met, and a run of sixty seeds fails
// that leaves one of them out: see Missing.
//
// A run must be inside a testing/synctest bubble. The command in run uses all cores.
package sim
