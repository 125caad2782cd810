package sqlstore

import (
	"context"
	"database/sql"
	"fmt"
	"math"
	"strconv"

	"github.com/snowfence/snowflake"
)

const leaseColumns = "owner, nonce, token, version, ceiling_ns, ceiling, released, layout, format"

// Records returns the region's records, from the primary.
func (s *store) Records(ctx context.Context, region int) ([]snowflake.Record, error) {
	// One row at least comes back, so that an empty replica tells that it is one.
	var records []snowflake.Record
	err := s.query(ctx, func(rows *sql.Rows) error {
		r, found, err := record(rows, region)
		if found {
			records = append(records, r)
		}
		return err
	}, "SELECT "+s.said.replica+", worker, "+leaseColumns+" FROM (SELECT 1 AS one) alone LEFT JOIN "+s.lease+" ON region = ? ORDER BY worker", region)
	if err != nil {
		return nil, fmt.Errorf("sqlstore: records of region %d: %w", region, err)
	}
	return records, nil
}

// record takes a record from a row of Records. A region that has none has one row.
func record(rows *sql.Rows, region int) (r snowflake.Record, found bool, err error) {
	fail := func(err error) (snowflake.Record, bool, error) { return snowflake.Record{}, false, err }
	var replica bool
	var worker, token, version, form sql.NullInt64
	var owner, nonce, shown, layout sql.NullString
	var ceiling instant
	var released sql.NullBool
	if err := rows.Scan(&replica, &worker, &owner, &nonce, &token, &version, &ceiling.ns, &shown, &released, &layout, &form); err != nil {
		return fail(err)
	}
	if replica {
		return fail(errReplica)
	}
	if !worker.Valid {
		return fail(nil)
	}
	r = snowflake.Record{
		Region: region, Worker: int(worker.Int64), Owner: hiddenText(owner.String), Nonce: nonce.String,
		Token: uint64(token.Int64), Version: uint64(version.Int64), Released: released.Bool, Layout: layout.String,
	}
	ceiling.shown = shown.String
	if r.Ceiling, err = ceiling.time(); err != nil {
		return fail(fmt.Errorf("worker %d: %w", r.Worker, err))
	}
	if form.Int64 != format {
		return fail(fmt.Errorf("worker %d: %w: format %d", r.Worker, errFormat, form.Int64))
	}
	if version.Int64 < 1 || token.Int64 < 0 {
		return fail(fmt.Errorf("worker %d: %w: version %d, token %d", r.Worker, snowflake.ErrDamaged, version.Int64, token.Int64))
	}
	return r, true, nil
}

// Swap compares and swaps one record.
func (s *store) Swap(ctx context.Context, old, new snowflake.Record) (snowflake.Record, error) {
	fail := func(err error) (snowflake.Record, error) {
		return snowflake.Record{}, &snowflake.LeaseError{Region: new.Region, Worker: new.Worker, Err: fmt.Errorf("sqlstore: %w", err)}
	}
	ceiling, err := admit(old, new)
	if err != nil {
		return fail(err)
	}
	if err := ctx.Err(); err != nil {
		return fail(fmt.Errorf("nothing was written: %w", err))
	}
	new.Version = old.Version + 1
	new.Ceiling, _ = ceiling.time()
	values := []any{
		shownText(new.Owner), new.Nonce, int64(new.Token), int64(new.Version), ceiling.ns, ceiling.shown, new.Released, new.Layout, format,
	}
	var written bool
	switch {
	case old.Version == 0 && old.Nonce == "":
		written, err = s.change(ctx, s.said.insert+" "+s.lease+" (region, worker, "+leaseColumns+", updated_at) VALUES (?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, "+
			s.said.now+") "+s.said.insertEnd, append([]any{new.Region, new.Worker}, values...)...)
	case old.Version > math.MaxInt64: // no record has that
	default:
		written, err = s.change(ctx, "UPDATE "+s.lease+" SET owner = ?, nonce = ?, token = ?, version = ?, ceiling_ns = ?, ceiling = ?, released = ?, layout = ?, "+
			"format = ?, updated_at = "+s.said.now+" WHERE region = ? AND worker = ? AND version = ? AND nonce = ? AND format = "+strconv.Itoa(format),
			append(values, new.Region, new.Worker, int64(old.Version), old.Nonce)...)
	}
	switch {
	case err != nil:
		return fail(err)
	case !written:
		return snowflake.Record{}, &snowflake.LeaseError{Region: new.Region, Worker: new.Worker, Err: snowflake.ErrConflict}
	}
	return new, nil
}

// admit refuses what no record can be, and returns the ceiling as it will be stored.
func admit(old, new snowflake.Record) (ceiling instant, err error) {
	present := old.Version != 0 || old.Nonce != ""
	switch {
	case new.Region < 0 || new.Worker < -1 || !inRange32(new.Region) || !inRange32(new.Worker):
		err = fmt.Errorf("no record can be that of worker %d in region %d", new.Worker, new.Region)
	case present && (old.Region != new.Region || old.Worker != new.Worker):
		err = fmt.Errorf("old is of worker %d of region %d, must be of the same as new", old.Worker, old.Region)
	case new.Token > math.MaxInt64:
		err = fmt.Errorf("token is %d, must be at most %d", new.Token, int64(math.MaxInt64))
	case old.Version == math.MaxInt64:
		err = fmt.Errorf("the record has the last version there is, %d", old.Version)
	case len(new.Owner) > maxText:
		err = fmt.Errorf("owner has %d bytes, must have at most %d", len(new.Owner), maxText)
	}
	if err == nil {
		err = exactText("nonce", new.Nonce)
	}
	if err == nil {
		err = exactText("layout", new.Layout)
	}
	if err != nil {
		return instant{}, err
	}
	return instantOf(new.Ceiling)
}
