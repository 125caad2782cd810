package redisstore

import (
	"errors"
	"fmt"
	"hash/crc32"
	"math"
	"strings"
	"time"

	"github.com/snowfence/snowflake"
)

// A record is stored as a line of text that begins with what a swap compares:
//
//	snowflake lease, format 1: region 2 worker 17 version 5 nonce "9f…" token 3 ceiling … crc32c 0badcafe
//
// Strings are quoted in ASCII, which keeps every byte and does not depend on the tables of
// a Go release. The ceiling's integers count; the date beside them is for people.
const (
	kind       = "snowflake lease, format "
	format     = kind + "1: "
	headForm   = format + "region %d worker %d version %d nonce %+q "
	tailForm   = "token %d ceiling %d s + %d ns = %s released %t owner %+q layout %+q "
	scanForm   = "region %d worker %d version %d nonce %q token %d ceiling %d s + %d ns = %s released %t owner %q layout %q"
	maxRecord  = 4096 // bytes
	layoutOnly = -1   // the worker of the region's layout record
)

var castagnoli = crc32.MakeTable(crc32.Castagnoli)

// head is how the record begins, if it has r's version and nonce. No head begins another.
func head(r snowflake.Record) string {
	return fmt.Sprintf(headForm, r.Region, r.Worker, r.Version, r.Nonce)
}

func encode(r snowflake.Record) string {
	text := head(r) + fmt.Sprintf(tailForm, r.Token, r.Ceiling.Unix(), r.Ceiling.Nanosecond(),
		r.Ceiling.UTC().Format(time.RFC3339Nano), r.Released, r.Owner, r.Layout)
	return fmt.Sprintf("%scrc32c %08x", text, crc32.Checksum([]byte(text), castagnoli))
}

// decode is strict: what it accepts is the record of that worker, and encodes to the same
// bytes. Any error is ErrDamaged.
func decode(region, worker int, text string) (snowflake.Record, error) {
	r, err := parse(text)
	if err == nil && (r.Region != region || r.Worker != worker) {
		err = fmt.Errorf("it is that of worker %d of region %d", r.Worker, r.Region)
	}
	if err != nil {
		return snowflake.Record{}, fmt.Errorf("%w: %w. It tells how far a code was used: restore it; or stop every process of the region for one TTL, then remove it",
			snowflake.ErrDamaged, err)
	}
	return r, nil
}

func parse(text string) (r snowflake.Record, err error) {
	body, ok := strings.CutPrefix(text, format)
	switch {
	case ok:
	case strings.HasPrefix(text, kind):
		return r, errors.New("the record has another format than 1: it is damaged, or a newer release wrote it, which must then be used")
	default:
		return r, errors.New("it is no record")
	}
	var seconds, nanos int64
	var date string
	if _, err := fmt.Sscanf(body, scanForm,
		&r.Region, &r.Worker, &r.Version, &r.Nonce, &r.Token, &seconds, &nanos, &date, &r.Released, &r.Owner, &r.Layout); err != nil {
		return r, fmt.Errorf("the record cannot be read: %w", err)
	}
	r.Ceiling = time.Unix(seconds, nanos).UTC()
	if encode(r) != text {
		return r, errors.New("the checksum does not match, or the record is not as it was written")
	}
	if r.Region < 0 || r.Worker < layoutOnly || r.Version < 1 || r.Version > math.MaxInt64 || r.Token > math.MaxInt64 {
		return r, errors.New("the values are not those of a record")
	}
	return r, nil
}
