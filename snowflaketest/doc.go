// Package snowflaketest helps to test what is built on or under package snowflake.
//
// For those who write a store, TestLeaseStore and TestHighWaterStore check what the
// interfaces LeaseStore and HighWaterStore promise. A store that passes keeps, as far
// as tests can show, what the proof of uniqueness takes from it:
//
//	func TestStore(t *testing.T) {
//		snowflaketest.TestLeaseStore(t, func(t *testing.T) snowflake.LeaseStore {
//			return openEmptyStore(t)
//		})
//	}
//
// Each case is a subtest named for the rule that it checks. TestLeaseStoreShared and
// TestHighWaterStoreShared are the same for two handles on one storage, as two
// processes have: a store that keeps anything in its handle shows it there. What only
// its author knows is left to the store's own tests: that two prefixes or tables do not
// mix, what a damaged record or one of a newer format does, what a restart of the
// server leaves.
//
// For those who use generators, Clock is a clock that moves only by hand, and steps,
// stands still and goes back when it is told to; Ledger finds the first ID that
// repeats or lies outside the grant that it was made under.
package snowflaketest
