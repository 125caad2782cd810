package sim

import "slices"

// What is counted in a run, by kind. A run that never got near a boundary is visible:
// Missing lists what was never reached.

// Faults are drawn.
var faults = []string{
	// of a process
	"kill", "close", "close under load", "pause", "pause past the lease", "restart",
	// of its clock
	"skew", "drift", "step forward", "step back", "long step", "freeze", "set right",
	// of its network
	"partition of a worker", "partition of a region", blackHole, connRefused, requestLost, answerLost,
	resetAfter, slowRequest, slowAnswer, doubled, doubledLate, landsLate,
	// of the store
	"failover", "store forgets", "store restored and fenced",
	// by hand
	"fence", "release of expired codes",
}

// States are met.
var states = []string{
	"claim at the floor", "claim in the last tick below the ceiling", "claim of the last sequence number",
	"refused at the ceiling", "refused before the floor", "refused while nothing is held",
	"cancelled during a wait",
	"step back: waited out", "step back: refused", "step back: ridden through by MaxAhead",
	"full tick: waited", "full tick: refused",
	"MaxAhead: borrowed", "MaxAhead: refused beyond",
	"a generator changed its code", "callers at once",

	"suspended", "suspended, then restored by a renewal", "lost to another nonce",
	"acquired", "acquired after a wait for a code", "acquired, and nobody used it",
	"conflict on acquire", "conflict on renewal", "conflict on release",
	"read-back: own write", "read-back: nothing yet", "read-back: another owner",
	"late write landed", "late write found its version gone", "second copy found its version gone",
	"code reused after a crash", "code reused after a release", "minted although its code was past renewing",
	"fenced", "released by hand", "code reused after it was fenced or released by hand",
	"released down", "released at its floor", "released, ceiling unchanged",
	"refused for the peers' clocks", "refused for the store's clock", "a step forward ended the grant",
	"empty until its floor: settling", "a holder found that the store forgot",

	"mark: taken from a dead owner", "mark: code in use", "mark: superseded", "mark: refused, too far ahead",
	"mark: waited for", "mark: reached", "mark: lowered by a close",
}

// Rare states are met too, but not in every sixty seeds.
var rare = []string{"the grant changed during a wait", "answer too late"}

// Missing returns which of the faults and states that so many seeds must reach were never
// reached.
func Missing(reached map[string]int, seeds int) []string {
	const enough, many = 60, 1000
	var due []string
	if seeds >= enough {
		due = slices.Concat(faults, states)
	}
	if seeds >= many {
		due = append(due, rare...)
	}
	return slices.DeleteFunc(due, func(name string) bool { return reached[name] > 0 })
}

// Faults returns how many faults are among what was reached.
func Faults(reached map[string]int) (n int) {
	for _, name := range faults {
		n += reached[name]
	}
	return n
}

// IsFault tells faults from states.
func IsFault(name string) bool { return slices.Contains(faults, name) }
