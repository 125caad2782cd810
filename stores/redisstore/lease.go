package redisstore

import (
	"context"
	"errors"
	"fmt"
	"math"
	"slices"
	"strconv"

	"github.com/redis/go-redis/v9"
	"github.com/snowfence/snowflake"
)

// Both scripts begin with PERSIST. It changes nothing, as the key never expires unless
// somebody has told it to; but it is a write, which a replica refuses. So neither records
// nor a conflict are told by one that is behind.

// swapScript writes the record of one worker if the stored one begins as it should; an
// empty beginning stands for no record. It returns whether it has, and if not what it
// found.
//
//	KEYS[1] the region  ARGV[1] worker  ARGV[2] beginning of the old record  ARGV[3] the new one
const swapScript = `
redis.call('PERSIST', KEYS[1])
local stored = redis.call('HGET', KEYS[1], ARGV[1])
local same
if ARGV[2] == '' then
	same = not stored
else
	same = stored and string.sub(stored, 1, string.len(ARGV[2])) == ARGV[2]
end
if same then
	redis.call('HSET', KEYS[1], ARGV[1], ARGV[3])
	return {1}
end
return {0, stored}
`

// recordsScript reads the records of a region.
const recordsScript = `
redis.call('PERSIST', KEYS[1])
return redis.call('HGETALL', KEYS[1])
`

// once is a command that the client sends once. A second answer would tell what the first
// sending had done, not whether it had succeeded.
type once struct{ *redis.Cmd }

// NoRetry tells the client.
func (once) NoRetry() bool { return true }

// Clone keeps it so.
func (o once) Clone() redis.Cmder {
	cmd, _ := o.Cmd.Clone().(*redis.Cmd)
	return once{cmd}
}

// Records returns the region's records, from the primary.
func (s *Store) Records(ctx context.Context, region int) ([]snowflake.Record, error) {
	records, err := s.records(ctx, region)
	if err != nil {
		return nil, fmt.Errorf("redisstore: records of region %d: %w", region, err)
	}
	return records, nil
}

func (s *Store) records(ctx context.Context, region int) ([]snowflake.Record, error) {
	if region < 0 {
		return nil, fmt.Errorf("there is no region %d", region)
	}
	fields, err := await(ctx, func() ([]string, error) {
		return s.client.Eval(ctx, recordsScript, []string{s.key(region)}).StringSlice()
	})
	if err != nil {
		return nil, err
	}
	records := make([]snowflake.Record, 0, len(fields)/2)
	for pair := range slices.Chunk(fields, 2) {
		worker, err := strconv.Atoi(pair[0])
		if err != nil || strconv.Itoa(worker) != pair[0] || len(pair) != 2 {
			return nil, fmt.Errorf("%w: the key %s has a field %q, which is no worker", snowflake.ErrDamaged, s.key(region), pair[0])
		}
		r, err := decode(region, worker, pair[1])
		if err != nil {
			return nil, fmt.Errorf("key %s, field %d: %w", s.key(region), worker, err)
		}
		records = append(records, r)
	}
	slices.SortFunc(records, func(a, b snowflake.Record) int { return a.Worker - b.Worker })
	return records, nil
}

// Swap compares and swaps one record.
func (s *Store) Swap(ctx context.Context, old, new snowflake.Record) (snowflake.Record, error) {
	holder := snowflake.Record{}
	fail := func(err error) (snowflake.Record, error) {
		return snowflake.Record{}, &snowflake.LeaseError{
			Region: new.Region, Worker: new.Worker, Holder: holder.Owner, Until: holder.Ceiling, Err: fmt.Errorf("redisstore: %w", err),
		}
	}
	new.Version = old.Version + 1
	new.Ceiling = new.Ceiling.Round(0).UTC()
	next := encode(new)
	if err := admit(old, new, len(next)); err != nil {
		return fail(err)
	}
	expected := ""
	if old.Version != 0 || old.Nonce != "" {
		expected = head(old)
	}
	found, err := await(ctx, func() ([]any, error) {
		cmd := once{redis.NewCmd(ctx, "eval", swapScript, 1, s.key(new.Region), new.Worker, expected, next)}
		_ = s.client.Process(ctx, cmd) // the command has it too
		return cmd.Slice()
	})
	switch {
	case err != nil:
		return fail(err)
	case len(found) == 1 && found[0] == int64(1):
		return new, nil
	case len(found) == 0 || found[0] != int64(0):
		return fail(fmt.Errorf("the answer is %v, which the script cannot give", found))
	}
	if len(found) == 2 {
		if text, ok := found[1].(string); ok {
			if holder, err = decode(new.Region, new.Worker, text); err != nil {
				return fail(err)
			}
		}
	}
	return fail(snowflake.ErrConflict)
}

// admit refuses what no record can be.
func admit(old, new snowflake.Record, size int) error {
	present := old.Version != 0 || old.Nonce != ""
	switch {
	case new.Region < 0 || new.Worker < layoutOnly:
		return fmt.Errorf("no record can be that of worker %d in region %d", new.Worker, new.Region)
	case present && (old.Region != new.Region || old.Worker != new.Worker):
		return fmt.Errorf("old is of worker %d of region %d, must be of the same as new", old.Worker, old.Region)
	case new.Token > math.MaxInt64:
		return fmt.Errorf("token is %d, must be at most %d", new.Token, int64(math.MaxInt64))
	case old.Version == math.MaxInt64:
		return fmt.Errorf("the record has the last version there is, %d", old.Version)
	case size > maxRecord:
		return fmt.Errorf("the record takes %d bytes, must take at most %d: shorten Owner", size, maxRecord)
	}
	return nil
}

// await returns when ctx ends, whether the client does or not: it may wait for a
// connection's answer longer than that.
func await[T any](ctx context.Context, call func() (T, error)) (T, error) {
	type answer struct {
		value T
		err   error
	}
	var none T
	if err := ctx.Err(); err != nil {
		return none, fmt.Errorf("nothing was sent: %w", err)
	}
	answers := make(chan answer, 1)
	go func() {
		value, err := call()
		answers <- answer{value, err}
	}()
	select {
	case a := <-answers:
		if err := ctx.Err(); err != nil && a.err != nil {
			a.err = errors.Join(err, a.err) // perhaps told as a time-out of the connection
		}
		return a.value, a.err
	case <-ctx.Done():
		return none, fmt.Errorf("no answer: %w", ctx.Err())
	}
}
