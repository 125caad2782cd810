package etcdstore

import (
	"errors"
	"fmt"
	"hash/crc32"
	"math"
	"strings"
	"time"

	"github.com/snowfence/snowflake"
)

// The value of a key is text:
//
//	snowflake lease record, format 1
//	nonce "0123456789abcdef0123456789abcdef"
//	region 2
//	worker 17
//	owner "host/17"
//	token 7
//	ceiling 1906545601 s + 500000000 ns = 2030-06-01T12:00:01.5Z
//	released false
//	layout "a layout"
//	crc32c 226577b4
//
// The nonce comes first, because a transaction of etcd compares no parts of values, but
// their order: it finds out so whether a value begins with a format and a nonce. Strings are
// quoted in ASCII, which keeps every byte, has one spelling for each, and no line break. The
// version is not part of it: it is the revision at which etcd has stored the value.
//
// A release that changes the meaning counts the format up; this one then refuses to read
// it, and writes nothing over it.
const (
	kind = "snowflake lease record, format "
	head = kind + "1\nnonce "
	body = "region %d\nworker %d\nowner %+q\ntoken %d\nceiling %d s + %d ns = %s\nreleased %t\nlayout %+q\n"
	tail = "crc32c %08x\n"
)

// span returns bounds, both excluded, of the values that have a nonce.
func span(nonce string) (first, last string) {
	text := head + fmt.Sprintf("%+q", nonce)
	return text + "\n", text + string(rune('\n'+1))
}

func encode(r snowflake.Record) string {
	first, _ := span(r.Nonce)
	text := first + fmt.Sprintf(body, r.Region, r.Worker, r.Owner, r.Token,
		r.Ceiling.Unix(), r.Ceiling.Nanosecond(), r.Ceiling.UTC().Format(time.RFC3339Nano), r.Released, r.Layout)
	return text + fmt.Sprintf(tail, crc32.Checksum([]byte(text), castagnoli))
}

var castagnoli = crc32.MakeTable(crc32.Castagnoli)

// decode is strict: what it accepts encodes to the same bytes.
func decode(value []byte) (snowflake.Record, error) {
	text := string(value)
	switch {
	case !strings.HasPrefix(text, kind):
		return snowflake.Record{}, errors.New("the value is not a lease record")
	case !strings.HasPrefix(text, head):
		return snowflake.Record{}, errors.New("the value has another format than 1: it is damaged, or a newer release wrote it, which must then be used")
	}
	var r snowflake.Record
	var seconds, nanos int64
	var readable string
	var sum uint32
	_, err := fmt.Sscanf(text, head+"%q\n"+strings.ReplaceAll(body, "+q", "q")+strings.ReplaceAll(tail, "08x", "x"),
		&r.Nonce, &r.Region, &r.Worker, &r.Owner, &r.Token, &seconds, &nanos, &readable, &r.Released, &r.Layout, &sum)
	if err != nil {
		return snowflake.Record{}, fmt.Errorf("the value is cut off or damaged: %w", err)
	}
	r.Ceiling = time.Unix(seconds, nanos).UTC()
	if r.Region < 0 || r.Worker < -1 || r.Token > math.MaxInt64 || encode(r) != text {
		return snowflake.Record{}, errors.New("the value is damaged: its checksum or one of its fields is wrong")
	}
	return r, nil
}
