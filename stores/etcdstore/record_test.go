package etcdstore

import (
	"fmt"
	"hash/crc32"
	"math"
	"strings"
	"testing"
	"time"

	"github.com/snowfence/snowflake"
	"github.com/stretchr/testify/require"
	clientv3 "go.etcd.io/etcd/client/v3"
)

var someRecord = snowflake.Record{
	Region: 2, Worker: 17, Owner: "host/17", Nonce: "0123456789abcdef0123456789abcdef", Token: 7,
	Ceiling: time.Date(2030, time.June, 1, 12, 0, 1, 5e8, time.UTC), Layout: "a layout",
}

// The text is a promise: other releases read it.
func TestFormatIsPinned(t *testing.T) {
	require.Equal(t, `snowflake lease record, format 1
nonce "0123456789abcdef0123456789abcdef"
region 2
worker 17
owner "host/17"
token 7
ceiling 1906545601 s + 500000000 ns = 2030-06-01T12:00:01.5Z
released false
layout "a layout"
crc32c 226577b4
`, encode(someRecord))
}

func TestRecordsComeBackExactly(t *testing.T) {
	for name, change := range map[string]func(r *snowflake.Record){
		"as it is":          func(*snowflake.Record) {},
		"layout record":     func(r *snowflake.Record) { r.Worker = -1 },
		"no ceiling":        func(r *snowflake.Record) { r.Ceiling = time.Time{} },
		"highest token":     func(r *snowflake.Record) { r.Token = math.MaxInt64 },
		"bytes as owner":    func(r *snowflake.Record) { r.Owner = "\xff\x00\n\"\\ %d 漢\u2028" },
		"bytes as nonce":    func(r *snowflake.Record) { r.Nonce = "\xff\x00\n\"\\ %d 漢\u2028" },
		"no strings at all": func(r *snowflake.Record) { r.Owner, r.Nonce, r.Layout = "", "", "" },
		"released":          func(r *snowflake.Record) { r.Released = true },
	} {
		want := someRecord
		change(&want)
		got, err := decode([]byte(encode(want)))
		require.NoError(t, err, name)
		require.Equal(t, want, got, name)
	}
}

// Values that begin with the format and the nonce lie between the two bounds, and no others.
func TestSpanIsTheNonce(t *testing.T) {
	nonces := []string{"", "a", "ab", "b", "A", "a\n", "a\x0b", "a\"", "\"", "a\\", "\xff", "ä", "a ", " a", "a\nregion 2"}
	for _, nonce := range nonces {
		first, last := span(nonce)
		for _, other := range nonces {
			r := someRecord
			r.Nonce = other
			value := encode(r)
			require.Equal(t, nonce == other, first < value && value < last, "%q and %q", nonce, other)
		}
		newer := strings.Replace(encode(someRecord), "format 1", "format 2", 1)
		require.False(t, first < newer && newer < last, "another format is nobody's to write over")
	}
}

// sealed gives a text the right checksum.
func sealed(text string) string {
	return text + fmt.Sprintf(tail, crc32.Checksum([]byte(text), castagnoli))
}

func TestDamageIsSeen(t *testing.T) {
	whole := encode(someRecord)
	for i := range whole {
		for _, bit := range []byte{1, 4, 0x20, 0x80} {
			flipped := []byte(whole)
			flipped[i] ^= bit
			_, err := decode(flipped)
			require.Error(t, err, "%q", flipped)
		}
		_, err := decode([]byte(whole[:i]))
		require.Error(t, err, "the first %d bytes", i)
	}
	text := whole[:strings.LastIndex(whole, "crc32c")]
	_, err := decode([]byte(sealed(text)))
	require.NoError(t, err)
	for old, new := range map[string]string{
		"token 7":       "token 007",
		"worker 17":     "worker -2",
		"region 2":      "region -1",
		"region 2\n":    "region 2\nregion 2\n",
		"host/17":       "hös",
		"2030":          "2031",
		"+ 500000000":   "+ 1500000000",
		"false":         "FALSE",
		"token 7\ncei":  "token 9223372036854775808\ncei",
		"layout \"a la": "layout  \"a la",
	} {
		changed := strings.Replace(text, old, new, 1)
		require.NotEqual(t, text, changed)
		_, err := decode([]byte(sealed(changed)))
		require.Error(t, err, changed)
	}
	for _, foreign := range []string{"", "\x00", "{}", "snowflake lease record, format 1", "snowflake lease record, format 1\n", whole + "\n", whole + whole} {
		_, err := decode([]byte(foreign))
		require.Error(t, err, "%q", foreign)
	}
	_, err = decode([]byte(strings.Replace(whole, "format 1", "format 2", 1)))
	require.ErrorContains(t, err, "newer release")
}

func TestPrefixes(t *testing.T) {
	client := &clientv3.Client{KV: clientv3.NewKVFromKVClient(nil, nil)}
	for _, good := range []string{"a", "/a", "a/b", "a//b", "ids of größe", strings.Repeat("a", 255)} {
		s, err := New(client, good)
		require.NoError(t, err, good)
		require.Equal(t, good+"/2/17", s.key(2, 17))
		require.False(t, s.MayForget())
	}
	for bad, why := range map[string]string{
		"":                       `prefix is "", must not be empty`,
		"/":                      "must not end in /",
		"a/":                     `prefix is "a/", must not end in /`,
		"a\n":                    `prefix is "a\n", must be UTF-8 text of printable characters`,
		"\x00":                   "printable",
		"a\u202eb":               "printable",
		"\xff":                   "UTF-8",
		strings.Repeat("a", 256): "prefix has 256 bytes, must have at most 255",
	} {
		s, err := New(client, bad)
		require.ErrorContains(t, err, why)
		require.Nil(t, s)
	}
	for _, none := range []*clientv3.Client{nil, {}} {
		_, err := New(none, "a")
		require.ErrorContains(t, err, "client is nil")
	}
}
