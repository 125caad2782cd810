package main

const (
	lease  = "lease.pml"
	marks  = "marks.pml"
	settle = "settle.pml"
	live   = "live.pml"
)

// sound lists the searches of the protocol as it is.
func sound() []search {
	return []search{
		{file: lease, bounds: "WORKERS=2 CODES=2"},
		{file: lease, bounds: "WORKERS=2 CODES=1 PAUSES"},
		{file: lease, bounds: "WORKERS=2 CODES=1 SEQS=4"},
		{file: lease, bounds: "WORKERS=3 CODES=1"},
		{file: lease, bounds: "WORKERS=2 CODES=1 FAILOVER"},
		{file: lease, bounds: "WORKERS=2 CODES=1 FAILOVER PAUSES"},
		{file: lease, bounds: "WORKERS=2 CODES=2 FAILOVER SYMMETRY", large: true},
		{file: lease, bounds: "WORKERS=3 CODES=1 FAILOVER SYMMETRY"},
		{file: marks, bounds: "PROCESSES=3 LOCK"},
		{file: marks, bounds: "PROCESSES=3"},
		{file: settle, bounds: "ATTEMPTS=2 SKEW=1 AGE=1"},
		{file: settle, bounds: "ATTEMPTS=2 SKEW=0 AGE=3"},
		{file: settle, bounds: "ATTEMPTS=2 SKEW=2 AGE=0"},
		{file: settle, bounds: "ATTEMPTS=2 SKEW=1 AGE=0 LOSS=1 RENEWAL_DOES_NOT_SETTLE"},
		{file: live, bounds: "LOSSES=0", cycles: true},
		{file: live, bounds: "LOSSES=2", cycles: true},
		{file: live, bounds: "LOSSES=2 SETTLE=3", cycles: true},
		{file: lease, bounds: "WORKERS=3 CODES=2 SYMMETRY"},
		{file: lease, bounds: "WORKERS=2 CODES=2 PAUSES SYMMETRY", large: true},
		{file: lease, bounds: "WORKERS=3 CODES=1 PAUSES SYMMETRY"},
		{file: lease, bounds: "WORKERS=4 CODES=1 SYMMETRY"},
		{file: marks, bounds: "PROCESSES=4", large: true},
		{file: settle, bounds: "ATTEMPTS=3 SKEW=1 AGE=1", large: true},
		{file: live, bounds: "WORKERS=3 CODES=3 LOSSES=1", cycles: true, large: true},
	}
}

const (
	one   = "WORKERS=2 CODES=1"
	two   = "WORKERS=2 CODES=2"
	over  = "WORKERS=2 CODES=1 FAILOVER"
	pause = "WORKERS=2 CODES=1 SEQS=1 PAUSES"
	file  = "PROCESSES=2 LOCK"
	row   = "PROCESSES=2"
	twice = "ATTEMPTS=2 SKEW=0 AGE=0 LOSS=2"
)

// broken lists the breaks, each with the bounds within which it is found.
func broken() []search {
	return []search{
		{name: "REVEAL_BEFORE_DURABLE", file: lease, bounds: one, stands: "a ceiling is revealed when the renewal is sent"},
		{name: "FLOOR_FROM_CLOCK", file: lease, bounds: one, stands: "the floor is the local clock, not the stored ceiling"},
		{name: "FLOOR_WITHIN_AHEAD", file: lease, bounds: one, stands: "a floor within MaxAhead is taken as reached"},
		{name: "IGNORE_FLOOR", file: lease, bounds: one, stands: "a claim does not look at the floor"},
		{name: "IGNORE_CEILING", file: lease, bounds: one, stands: "a claim does not look at the ceiling"},
		{name: "RENEW_ANY_VERSION", file: lease, bounds: one, stands: "a renewal is written to its owner's record whatever the version"},
		{name: "RENEW_BLINDLY", file: lease, bounds: one, stands: "a renewal is written to whosever record"},
		{name: "RENEW_LOWERS", file: lease, bounds: one, stands: "a renewal writes now + TTL, though the record has more"},
		{name: "RELEASE_BLINDLY", file: lease, bounds: one, stands: "a release is written to whosever record"},
		{name: "READBACK_IGNORES_NONCE", file: lease, bounds: one, stands: "a read-back does not compare the nonce"},
		{name: "SWAP_IGNORES_NONCE", file: lease, bounds: one, stands: "a swap compares the version alone, and a backup is restored"},
		{name: "NONCE_SHARED", file: lease, bounds: one, stands: "every attempt writes the same nonce"},
		{name: "RECORD_DELETED", file: lease, bounds: one, stands: "the record is deleted"},
		{name: "RELEASE_BEFORE_STOP", file: lease, bounds: one, stands: "the release is sent, then the generator stopped"},
		{name: "RELEASE_IGNORES_FLOOR", file: lease, bounds: one, stands: "a release is clamped to the last claim, not to the floor"},
		{name: "RELEASE_IGNORES_CLAIMS", file: lease, bounds: one, stands: "a release is clamped to the floor, not to the last claim"},
		{name: "GRANT_AFTER_RELEASE", file: lease, bounds: one, stands: "a lease that has sent a release grants again"},
		{name: "LATE_ANSWER_AFTER_RELEASE", file: lease, bounds: pause, stands: "a renewal's answer is applied although its lease was released"},
		{name: "LATE_ANSWER_FOR_ANOTHER", file: lease, bounds: pause, stands: "a renewal's answer is applied to the grant that came after"},
		{name: "CONFLICT_KEEPS_FLOOR", file: lease, bounds: one, stands: "an acquire that met a conflict tries the new version with the old floor"},
		{name: "ACQUIRE_LOWERS", file: lease, bounds: one, stands: "an acquire writes now + TTL, though the record has more"},
		{name: "READBACK_TRUSTS_REQUEST", file: lease, bounds: one, stands: "a read-back reveals the ceiling that was asked for"},
		{name: "READBACK_REVEALS", file: lease, bounds: over, stands: "a read-back is taken for durable, and a failover loses it"},
		{name: "VERSION_COMES_AGAIN", file: lease, bounds: over, stands: "an owner's writes share a nonce, and a failover has a version come again"},
		{name: "REFUSAL_RESETS_SEQUENCE", file: lease, bounds: one, stands: "a refused rollback resets the sequence"},
		{name: "POINTER_RESETS_SEQUENCE", file: lease, bounds: one, stands: "every new grant pointer resets the sequence"},
		{name: "SEQUENCE_WRAPS", file: lease, bounds: one, stands: "the sequence wraps inside a tick"},
		{name: "STEP_BACK_RESTARTS", file: lease, bounds: one, stands: "a clock that went back is followed"},
		{name: "NEW_CODE_SAME_TICK", file: lease, bounds: two, stands: "a new code goes on in the same tick"},
		{name: "ADVANCE_AFTER_USE", file: marks, bounds: file, stands: "a mark is advanced after it was used"},
		{name: "MARK_CHECKED_ONLY_AT_START", file: marks, bounds: file, stands: "the clock is compared with the mark at the start, and never again"},
		{name: "MARK_NOT_COMPARED_WITH_CLAIM", file: marks, bounds: file, stands: "the clock is compared with the mark, not the tick that is claimed"},
		{name: "MARK_NOT_MONOTONE", file: marks, bounds: file, stands: "an advance writes what the clock says, lower or not"},
		{name: "NO_LOCK", file: marks, bounds: file, stands: "a file is opened without its lock"},
		{name: "NO_LOCK", file: marks, bounds: row, stands: "a row is written without comparing the session"},
		{name: "REVEAL_BEFORE_SYNC", file: marks, bounds: file, stands: "a mark is revealed when it is written, not synced"},
		{name: "REVEAL_UNACKNOWLEDGED", file: marks, bounds: row, stands: "a mark is revealed although Advance failed"},
		{name: "DAMAGED_IS_FRESH", file: marks, bounds: file, stands: "a mark that cannot be read is taken for \"never used\""},
		{name: "CLOSE_BEFORE_STOP", file: marks, bounds: file, stands: "the mark is written down, then the generator stopped"},
		{name: "CLOSE_IGNORES_CLAIMS", file: marks, bounds: row, stands: "a close writes the mark as opened, whatever was claimed"},
		{name: "CLOSE_IGNORES_OPENED", file: marks, bounds: row, stands: "a close writes the last claim, below the mark as opened"},
		{name: "NO_SETTLE", file: settle, bounds: twice, stands: "the store forgets, and an acquire does not settle"},
		{name: "SETTLE_NEVER_USED_ONLY", file: settle, bounds: twice, stands: "only an acquire of a code without a record settles"},
		{name: "CLOCKS_TOO_FAR_APART", file: settle, bounds: twice, stands: "clocks differ by more than MaxClockSkew"},
		{name: "CLOCK_READ_LONG_AGO", file: settle, bounds: "ATTEMPTS=2 SKEW=2", stands: "the floor of an acquire counts from a reading of the clock long before its answer"},
		{name: "RENEWAL_DOES_NOT_SETTLE", file: settle, bounds: "ATTEMPTS=2 SKEW=0 AGE=0", stands: "the store forgets that an expired code was taken, and its owner before renews without settling"},
		{name: "ANSWER_WAITED_FOR", file: live, bounds: "", cycles: true, stands: "an answer is waited for without a limit"},
		{name: "NOT_READ_BACK", file: live, bounds: "", cycles: true, stands: "a conflict is not read back: the old version is presented for ever"},
		{name: "SUSPENDED_FOR_EVER", file: live, bounds: "", cycles: true, stands: "a lease past its deadline is neither renewed nor given up"},
		{name: "DEAD_OWNERS_STAY", file: live, bounds: "", cycles: true, stands: "a code whose ceiling has passed is not taken"},
		{name: "SETTLE_AGAIN", file: live, bounds: "SETTLE=3", cycles: true, stands: "a renewal moves the floor as an acquire does"},
	}
}
