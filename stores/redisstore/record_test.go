package redisstore

import (
	"fmt"
	"hash/crc32"
	"math"
	"strings"
	"testing"
	"time"

	"github.com/redis/go-redis/v9"
	"github.com/snowfence/snowflake"
	"github.com/stretchr/testify/require"

	"github.com/snowfence/snowflake/internal/servers/servertest"
)

var noon = time.Date(2030, time.June, 1, 12, 0, 0, 0, time.UTC)

func someRecord(worker int) snowflake.Record {
	return snowflake.Record{
		Region: 2, Worker: worker, Owner: "host/17", Nonce: "0123456789abcdef", Token: 7,
		Ceiling: noon.Add(1500 * time.Millisecond), Layout: snowflake.DefaultLayout().String(),
	}
}

func swap(t *testing.T, s *Store, old, new snowflake.Record) snowflake.Record {
	t.Helper()
	stored, err := s.Swap(t.Context(), old, new)
	require.NoError(t, err)
	return stored
}

func records(t *testing.T, s *Store, region int) []snowflake.Record {
	t.Helper()
	all, err := s.Records(t.Context(), region)
	require.NoError(t, err)
	return all
}

// What is in servers today is read tomorrow: this text does not change with a release.
func TestPeopleCanReadTheRecords(t *testing.T) {
	s, client := open(t)
	swap(t, s, snowflake.Record{}, someRecord(17))
	all, err := client.HGetAll(t.Context(), s.prefix+"{2}").Result()
	require.NoError(t, err)
	require.Equal(t, map[string]string{"17": `snowflake lease, format 1: region 2 worker 17 version 1 nonce "0123456789abcdef" token 7 ` +
		`ceiling 1906545601 s + 500000000 ns = 2030-06-01T12:00:01.5Z released false owner "host/17" ` +
		`layout "` + snowflake.DefaultLayout().String() + `" crc32c 293209fa`}, all)
}

// sealed is a text with the checksum that fits it.
func sealed(text string) string {
	return fmt.Sprintf("%s crc32c %08x", text, crc32.Checksum([]byte(text+" "), castagnoli))
}

func TestDamagedAndNewerRecordsAreRefused(t *testing.T) {
	r := someRecord(17)
	r.Version = 5
	good := encode(r)
	text, _, _ := strings.Cut(good, " crc32c")
	require.Equal(t, good, sealed(text))
	edit := func(old, new string) string {
		require.Contains(t, text, old)
		return sealed(strings.Replace(text, old, new, 1))
	}
	damaged := map[string]string{
		"nothing":               "",
		"something":             "hello",
		"cut off":               good[:len(good)-1],
		"longer":                good + " ",
		"a newer format":        edit("format 1:", "format 2:"),
		"a much newer format":   edit("format 1:", "format 10:"),
		"the ceiling edited":    strings.Replace(good, "1906545601", "1906545602", 1),
		"the ceilings differ":   edit("1906545601", "1906545602"),
		"the checksum edited":   good[:len(good)-1] + "x",
		"another worker's":      edit("worker 17", "worker 18"),
		"another region's":      edit("region 2", "region 3"),
		"no version":            edit("version 5", "version 0"),
		"a version beyond":      edit("version 5", "version 9223372036854775808"),
		"a negative version":    edit("version 5", "version -5"),
		"a version with zeros":  edit("version 5", "version 05"),
		"a token beyond":        edit("token 7", "token 9223372036854775808"),
		"two spaces":            edit("token 7", "token  7"),
		"another quotation":     edit(`"host/17"`, "`host/17`"),
		"an owner not in ASCII": edit(`"host/17"`, `"größe"`),
		"not quoted":            edit(`"host/17"`, "host"),
		"released perhaps":      edit("released false", "released maybe"),
		"upper case":            strings.ToUpper(good),
	}
	for name, text := range damaged {
		t.Run(name, func(t *testing.T) {
			s, client := open(t)
			require.NoError(t, client.HSet(t.Context(), s.key(2), "17", text).Err())
			_, err := s.Records(t.Context(), 2)
			require.ErrorIs(t, err, snowflake.ErrDamaged)
			require.ErrorContains(t, err, s.key(2)+", field 17")
			require.False(t, snowflake.Retryable(err))
			_, err = s.Swap(t.Context(), snowflake.Record{}, someRecord(17))
			require.ErrorIs(t, err, snowflake.ErrDamaged)
			require.NotErrorIs(t, err, snowflake.ErrConflict)
			_, err = snowflake.AcquireLease(t.Context(), s, snowflake.LeaseConfig{Region: 2})
			require.ErrorIs(t, err, snowflake.ErrDamaged, "at once, not after a TTL")
			now, err := client.HGet(t.Context(), s.key(2), "17").Result()
			require.NoError(t, err)
			require.Equal(t, text, now, "and nothing was written")
		})
	}
	for _, field := range []string{"", "x", "017", "+17", "1 7", "１７", "17.0", "99999999999999999999"} {
		t.Run("a field "+field, func(t *testing.T) {
			s, client := open(t)
			require.NoError(t, client.HSet(t.Context(), s.key(2), field, good).Err())
			_, err := s.Records(t.Context(), 2)
			require.ErrorIs(t, err, snowflake.ErrDamaged)
			require.ErrorContains(t, err, fmt.Sprintf("field %q", field))
		})
	}
	t.Run("a key of another kind", func(t *testing.T) {
		s, client := open(t)
		require.NoError(t, client.Set(t.Context(), s.key(2), good, 0).Err())
		_, err := s.Records(t.Context(), 2)
		require.ErrorContains(t, err, "WRONGTYPE")
		_, err = s.Swap(t.Context(), snowflake.Record{}, someRecord(17))
		require.ErrorContains(t, err, "WRONGTYPE")
		require.NotErrorIs(t, err, snowflake.ErrConflict)
	})
	t.Run("the key of another region", func(t *testing.T) {
		s, client := open(t)
		swap(t, s, snowflake.Record{}, someRecord(17))
		require.NoError(t, client.Copy(t.Context(), s.key(2), s.key(3), 0, false).Err())
		_, err := s.Records(t.Context(), 3)
		require.ErrorIs(t, err, snowflake.ErrDamaged)
	})
}

func FuzzDecode(f *testing.F) {
	for _, r := range []snowflake.Record{{Version: 1}, someRecord(0), {Worker: -1, Version: math.MaxInt64, Token: math.MaxInt64, Owner: "\xff\x00\""}} {
		r.Version = max(r.Version, 1)
		f.Add(encode(r))
	}
	f.Add("snowflake lease, format 1: region 2")
	f.Fuzz(func(t *testing.T, text string) {
		r, err := parse(text)
		if err == nil {
			require.Equal(t, text, encode(r))
			require.True(t, strings.HasPrefix(text, head(r)))
		}
	})
}

// Numbers in a script have 53 bits: none may pass through one.
func TestVersionsAreExactAndEnd(t *testing.T) {
	s, client := open(t)
	for _, version := range []uint64{1<<53 - 1, 1 << 53, 1<<53 + 1, 1<<63 - 3} {
		r := someRecord(17)
		r.Version = version
		require.NoError(t, client.HSet(t.Context(), s.key(2), 17, encode(r)).Err())
		for _, other := range []uint64{version - 1, version + 1} {
			stale := r
			stale.Version = other
			_, err := s.Swap(t.Context(), stale, someRecord(17))
			require.ErrorIs(t, err, snowflake.ErrConflict)
		}
		next := swap(t, s, r, someRecord(17))
		require.Equal(t, version+1, next.Version)
		require.Equal(t, []snowflake.Record{next}, records(t, s, 2))
	}
	last := swap(t, s, records(t, s, 2)[0], someRecord(17))
	require.Equal(t, uint64(math.MaxInt64), last.Version)
	_, err := s.Swap(t.Context(), last, someRecord(17))
	require.ErrorContains(t, err, "last version")
	require.NotErrorIs(t, err, snowflake.ErrConflict)
	for _, version := range []uint64{1 << 63, math.MaxUint64} {
		beyond := last
		beyond.Version = version
		_, err = s.Swap(t.Context(), beyond, someRecord(17))
		require.ErrorIs(t, err, snowflake.ErrConflict)
	}
	require.Equal(t, []snowflake.Record{last}, records(t, s, 2))
}

func TestSwapRefusesWhatNoRecordCanBe(t *testing.T) {
	s, _ := open(t)
	for name, change := range map[string]func(r *snowflake.Record){
		"a long owner":      func(r *snowflake.Record) { r.Owner = strings.Repeat("x", maxRecord) },
		"a high token":      func(r *snowflake.Record) { r.Token = 1 << 63 },
		"a negative region": func(r *snowflake.Record) { r.Region = -1 },
		"a negative worker": func(r *snowflake.Record) { r.Worker = -2 },
	} {
		r := someRecord(17)
		change(&r)
		_, err := s.Swap(t.Context(), snowflake.Record{}, r)
		require.Error(t, err, name)
		require.NotErrorIs(t, err, snowflake.ErrConflict, name)
	}
	other := someRecord(18)
	other.Version = 1
	_, err := s.Swap(t.Context(), other, someRecord(17))
	require.ErrorContains(t, err, "must be of the same")
	require.Empty(t, records(t, s, 2))
	_, err = s.Records(t.Context(), -1)
	require.ErrorContains(t, err, "region -1")
}

func TestConflictTellsWhoHoldsTheCode(t *testing.T) {
	s, _ := open(t)
	now := swap(t, s, snowflake.Record{}, someRecord(17))
	_, err := s.Swap(t.Context(), snowflake.Record{}, someRecord(17))
	var conflict *snowflake.LeaseError
	require.ErrorAs(t, err, &conflict)
	require.ErrorIs(t, err, snowflake.ErrConflict)
	require.Equal(t, 17, conflict.Worker)
	require.Equal(t, now.Owner, conflict.Holder)
	require.Equal(t, now.Ceiling, conflict.Until)
}

func TestOwnersOfAnyBytesComeBack(t *testing.T) {
	s, _ := open(t)
	for worker, owner := range []string{"", "a\x00b", "\xff\xfe", strings.Repeat("\xff", 255), `"quoted"`, `"`, "größe", strings.Repeat("\x00", 255), `x" token 9 nonce "`} {
		r := someRecord(worker)
		r.Owner, r.Nonce, r.Layout = owner, owner, owner
		stored := swap(t, s, snowflake.Record{}, r)
		stored = swap(t, s, stored, r) // it is found again
		r.Version = 2
		require.Equal(t, r, stored)
		require.Equal(t, r, records(t, s, 2)[worker])
	}
}

func TestPrefixesDoNotMix(t *testing.T) {
	one, client := open(t)
	swap(t, one, snowflake.Record{}, someRecord(17))
	for _, prefix := range []string{newPrefix(), one.prefix + "{2}", one.prefix[:len(one.prefix)-1], "{2}" + newPrefix(), " ", "größe\x00*"} {
		other := openOn(t, client, prefix)
		require.Empty(t, records(t, other, 2), prefix)
		swap(t, other, snowflake.Record{}, someRecord(18))
		require.Len(t, records(t, one, 2), 1, prefix)
		require.NoError(t, client.Del(t.Context(), other.key(2)).Err())
	}
}

func TestNewRefusesWhatCannotWork(t *testing.T) {
	client := connect(t, servertest.Need(t, safe), nil)
	_, err := New(t.Context(), nil, "a", Options{})
	require.ErrorContains(t, err, "client is nil")
	_, err = New(t.Context(), client, "", Options{})
	require.ErrorContains(t, err, "prefix is empty")
	ring := redis.NewRing(&redis.RingOptions{Addrs: map[string]string{"one": servertest.Need(t, safe).Address()}})
	t.Cleanup(func() { require.NoError(t, ring.Close()) })
	_, err = New(t.Context(), ring, "a", Options{MayForget: true})
	require.ErrorContains(t, err, "redis.Ring")
	closed := connect(t, servertest.Need(t, safe), func(o *redis.Options) { o.Addr, o.MaxRetries = "127.0.0.1:1", -1 })
	_, err = New(t.Context(), closed, "a", Options{MayForget: true})
	require.ErrorContains(t, err, "refused")
	require.NotErrorIs(t, err, ErrForgetful)
}
