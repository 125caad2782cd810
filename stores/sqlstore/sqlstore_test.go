package sqlstore

import (
	"context"
	"database/sql"
	"fmt"
	"path/filepath"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	_ "github.com/go-sql-driver/mysql"
	_ "github.com/jackc/pgx/v5/stdlib"
	"github.com/snowfence/snowflake"
	"github.com/snowfence/snowflake/internal/servers"
	"github.com/snowfence/snowflake/internal/servers/servertest"
	"github.com/snowfence/snowflake/snowflaketest"
	"github.com/stretchr/testify/require"
	_ "modernc.org/sqlite"
)

// database is one that tests run on.
type database struct {
	name    string
	dialect Dialect
	driver  string
	address func(t *testing.T) string // of an empty database, or one in which prefixes tell tests apart
}

const safely = "?_pragma=journal_mode(WAL)&_pragma=synchronous(FULL)&_pragma=busy_timeout(10000)"

var (
	onSQLite = database{"SQLite", SQLite, "sqlite", func(t *testing.T) string {
		t.Helper()
		return "file:" + filepath.Join(t.TempDir(), "ids.db") + safely
	}}
	onPostgres = database{"PostgreSQL", Postgres, "pgx", func(t *testing.T) string {
		t.Helper()
		return servertest.Need(t, postgres).DSN()
	}}
	onMariaDB = database{"MariaDB", MySQL, "mysql", func(t *testing.T) string {
		t.Helper()
		return servertest.Need(t, mariaDB).DSN()
	}}
	// The ways in which the same servers are used.
	onPostgresSimply = database{"PostgreSQL with the simple protocol", Postgres, "pgx", func(t *testing.T) string {
		t.Helper()
		return onPostgres.address(t) + "&default_query_exec_mode=simple_protocol"
	}}
	onPostgresSerializably = database{"PostgreSQL with serializable transactions", Postgres, "pgx", func(t *testing.T) string {
		t.Helper()
		return onPostgres.address(t) + "&default_transaction_isolation=serializable"
	}}
	onPgBouncer = database{"PostgreSQL behind PgBouncer in transaction mode", Postgres, "pgx", func(t *testing.T) string {
		t.Helper()
		return servertest.Need(t, pgBouncer).DSN()
	}}
	onMariaDBFound = database{"MariaDB that counts found rows and is sent text", MySQL, "mysql", func(t *testing.T) string {
		t.Helper()
		return onMariaDB.address(t) + "?clientFoundRows=true&interpolateParams=true"
	}}
	onMariaDBWithoutAutocommit = database{"MariaDB that does not commit by itself", MySQL, "mysql", func(t *testing.T) string {
		t.Helper()
		return onMariaDB.address(t) + "?autocommit=0"
	}}
	databases = []database{onSQLite, onPostgres, onMariaDB}
)

func (d database) connect(t *testing.T, address string) *sql.DB {
	t.Helper()
	db, err := sql.Open(d.driver, address)
	require.NoError(t, err)
	db.SetMaxOpenConns(20)
	db.SetMaxIdleConns(20)
	t.Cleanup(func() { require.NoError(t, db.Close()) })
	return db
}

var lastPrefix atomic.Int32

func newPrefix() string { return fmt.Sprintf("test%d_", lastPrefix.Add(1)) }

// open opens a store in tables of its own.
func (d database) open(t *testing.T) (s Store, db *sql.DB, o Options) {
	t.Helper()
	db, o = d.connect(t, d.address(t)), Options{Prefix: newPrefix()}
	s, err := Open(t.Context(), db, d.dialect, o)
	require.NoError(t, err)
	return s, db, o
}

// pair opens two stores in the same tables, as two processes have.
func (d database) pair(t *testing.T) (a, b Store) {
	t.Helper()
	address, o := d.address(t), Options{Prefix: newPrefix()}
	a, err := Open(t.Context(), d.connect(t, address), d.dialect, o)
	require.NoError(t, err)
	b, err = Open(t.Context(), d.connect(t, address), d.dialect, o)
	require.NoError(t, err)
	return a, b
}

// onEach runs a test on every database.
func onEach(t *testing.T, test func(t *testing.T, d database)) {
	t.Helper()
	for _, d := range databases {
		t.Run(d.name, func(t *testing.T) { test(t, d) })
	}
}

func TestLeaseStore(t *testing.T) {
	for _, d := range append(databases, onPostgresSimply, onPgBouncer, onMariaDBFound, onMariaDBWithoutAutocommit) {
		t.Run(d.name, func(t *testing.T) {
			snowflaketest.TestLeaseStoreShared(t, func(t *testing.T) (a, b snowflake.LeaseStore) { return d.pair(t) })
		})
	}
}

// supersedable takes codes from their owners.
type supersedable struct {
	snowflake.HighWaterStore
	*store
}

func (s supersedable) Supersede(ctx context.Context, code int) error {
	_, err := s.change(ctx, "UPDATE "+s.mark+" SET session = '' WHERE code = ?", code)
	return err
}

func inner(t *testing.T, s Store) *store {
	t.Helper()
	if timed, ok := s.(*timedStore); ok {
		return timed.store
	}
	return s.(*store)
}

func TestHighWaterStore(t *testing.T) {
	for _, d := range append(databases, onPgBouncer, onMariaDBFound, onMariaDBWithoutAutocommit) {
		t.Run(d.name, func(t *testing.T) {
			snowflaketest.TestHighWaterStoreShared(t, func(t *testing.T) (a, b snowflake.HighWaterStore) {
				one, other := d.pair(t)
				return supersedable{one.HighWater(), inner(t, one)}, supersedable{other.HighWater(), inner(t, other)}
			})
		})
	}
}

var noon = time.Date(2030, time.June, 1, 12, 0, 0, 0, time.UTC)

func someRecord(worker int) snowflake.Record {
	return snowflake.Record{
		Region: 2, Worker: worker, Owner: "host/17", Nonce: "0123456789abcdef", Token: 7,
		Ceiling: noon.Add(1500 * time.Millisecond), Layout: snowflake.DefaultLayout().String(),
	}
}

func swap(t *testing.T, s Store, old, new snowflake.Record) snowflake.Record {
	t.Helper()
	stored, err := s.Swap(t.Context(), old, new)
	require.NoError(t, err)
	return stored
}

func TestPeopleCanReadTheTables(t *testing.T) {
	onEach(t, func(t *testing.T, d database) {
		s, db, o := d.open(t)
		swap(t, s, snowflake.Record{}, someRecord(17))
		var region, worker, nanos int64
		var owner, ceiling string
		var released bool
		require.NoError(t, db.QueryRow("SELECT region, worker, owner, ceiling, ceiling_ns, released FROM "+o.Prefix+"lease WHERE updated_at IS NOT NULL").
			Scan(&region, &worker, &owner, &ceiling, &nanos, &released))
		require.EqualValues(t, 2, region)
		require.EqualValues(t, 17, worker)
		require.Equal(t, "host/17", owner)
		require.Equal(t, "2030-06-01T12:00:01.5Z", ceiling)
		require.Equal(t, noon.Add(1500*time.Millisecond).UnixNano(), nanos)
		require.False(t, released)

		m, err := s.HighWater().Open(t.Context(), 5, snowflake.DefaultLayout())
		require.NoError(t, err)
		require.NoError(t, m.Advance(t.Context(), noon))
		var closed bool
		read := func() {
			require.NoError(t, db.QueryRow("SELECT code, owner, mark, session = '' AS closed FROM "+o.Prefix+"mark").Scan(&worker, &owner, &ceiling, &closed))
		}
		read()
		require.EqualValues(t, 5, worker)
		require.Equal(t, inner(t, s).options.Owner, owner)
		require.Equal(t, "2030-06-01T12:00:00Z", ceiling)
		require.False(t, closed)
		require.NoError(t, m.Close(t.Context(), time.Time{}))
		read()
		require.True(t, closed)
	})
}

func TestPrefixesDoNotMix(t *testing.T) {
	onEach(t, func(t *testing.T, d database) {
		one, db, _ := d.open(t)
		swap(t, one, snowflake.Record{}, someRecord(17))
		other, err := Open(t.Context(), db, d.dialect, Options{Prefix: newPrefix()})
		require.NoError(t, err)
		all, err := other.Records(t.Context(), 2)
		require.NoError(t, err)
		require.Empty(t, all)
		for _, bad := range []string{"a b", "a;", "1_", "a.b.c", `"a"`, "a'", "é", strings.Repeat("a", 52)} {
			_, err := Open(t.Context(), db, d.dialect, Options{Prefix: bad})
			require.ErrorContains(t, err, "Options.Prefix", bad)
			require.Nil(t, Schema(d.dialect, bad))
		}
	})
}

func TestManyOpenAtOnce(t *testing.T) {
	onEach(t, func(t *testing.T, d database) {
		db, o := d.connect(t, d.address(t)), Options{Prefix: newPrefix()}
		var group sync.WaitGroup
		for range 12 {
			group.Go(func() {
				s, err := Open(t.Context(), db, d.dialect, o)
				if err == nil {
					_, err = s.Records(t.Context(), 0)
				}
				if err != nil {
					t.Error(err)
				}
			})
		}
		group.Wait()
	})
}

func TestOpenRefusesWhatCannotWork(t *testing.T) {
	_, err := Open(t.Context(), nil, SQLite, Options{})
	require.ErrorContains(t, err, "db is nil")
	db := onSQLite.connect(t, onSQLite.address(t))
	_, err = Open(t.Context(), db, 0, Options{})
	require.ErrorContains(t, err, "Dialect(0)")
	_, err = Open(t.Context(), db, Postgres, Options{})
	require.ErrorContains(t, err, "is it PostgreSQL?")
	_, err = Open(t.Context(), db, SQLite, Options{Owner: strings.Repeat("x", 256)})
	require.ErrorContains(t, err, "Options.Owner")
	ended, cancel := context.WithCancel(t.Context())
	cancel()
	_, err = Open(ended, db, SQLite, Options{})
	require.ErrorIs(t, err, context.Canceled)
	_, err = db.Exec("CREATE TABLE other_lease (region INTEGER)")
	require.NoError(t, err)
	_, err = Open(t.Context(), db, SQLite, Options{Prefix: "other_"})
	require.ErrorContains(t, err, "table other_lease")
}

// A service may have no right to make tables.
func TestOpenNeedsNoRightToMakeTables(t *testing.T) {
	d := onPostgres
	_, db, o := d.open(t)
	modestly := o.Prefix + "modest"
	_, err := db.Exec("CREATE ROLE " + modestly + " LOGIN; GRANT SELECT, INSERT, UPDATE ON " + o.Prefix + "lease, " + o.Prefix + "mark TO " + modestly)
	require.NoError(t, err)
	modest := d.connect(t, strings.Replace(d.address(t), "snowflake@", modestly+"@", 1))
	s, err := Open(t.Context(), modest, d.dialect, o)
	require.NoError(t, err)
	swap(t, s, snowflake.Record{}, someRecord(17))
	_, err = Open(t.Context(), modest, d.dialect, Options{Prefix: newPrefix()})
	require.ErrorContains(t, err, "permission denied")
}

func TestNewerFormatIsRefused(t *testing.T) {
	onEach(t, func(t *testing.T, d database) {
		s, db, o := d.open(t)
		now := swap(t, s, snowflake.Record{}, someRecord(17))
		m, err := s.HighWater().Open(t.Context(), 5, snowflake.DefaultLayout())
		require.NoError(t, err)
		set := func(table string, format int) {
			_, err := db.Exec(fmt.Sprintf("UPDATE %s%s SET format = %d", o.Prefix, table, format))
			require.NoError(t, err)
		}
		set("lease", 2)
		_, err = s.Records(t.Context(), 2)
		require.ErrorIs(t, err, errFormat)
		_, err = s.Swap(t.Context(), now, someRecord(17))
		require.ErrorIs(t, err, snowflake.ErrConflict)
		_, err = s.Swap(t.Context(), snowflake.Record{}, someRecord(17))
		require.ErrorIs(t, err, snowflake.ErrConflict)
		_, err = Open(t.Context(), db, d.dialect, o)
		require.ErrorIs(t, err, errFormat)
		require.ErrorContains(t, err, o.Prefix+"lease")
		set("lease", 1)
		all, err := s.Records(t.Context(), 2)
		require.NoError(t, err)
		require.Equal(t, []snowflake.Record{now}, all, "nothing was written")

		set("mark", 2)
		require.ErrorIs(t, m.Advance(t.Context(), noon), snowflake.ErrConflict)
		_, err = s.HighWater().Open(t.Context(), 5, snowflake.DefaultLayout())
		require.ErrorIs(t, err, errFormat)
		require.False(t, snowflake.Retryable(err))
		_, err = Open(t.Context(), db, d.dialect, o)
		require.ErrorIs(t, err, errFormat)
		require.ErrorContains(t, err, o.Prefix+"mark")
	})
}

func TestDamagedRowsAreRefused(t *testing.T) {
	for name, set := range map[string]string{
		"the number was changed": "ceiling_ns = ceiling_ns + 1",
		"the text was changed":   "ceiling = 'soon'",
		"the number is gone":     "ceiling_ns = NULL",
		"the text is gone":       "ceiling = ''",
		"no version":             "version = 0",
		"negative version":       "version = -1",
		"negative token":         "token = -1",
	} {
		s, db, o := onSQLite.open(t)
		swap(t, s, snowflake.Record{}, someRecord(17))
		_, err := db.Exec("UPDATE " + o.Prefix + "lease SET " + set)
		require.NoError(t, err)
		_, err = s.Records(t.Context(), 2)
		require.ErrorIs(t, err, snowflake.ErrDamaged, name)
		require.ErrorContains(t, err, "worker 17", name)
	}
	for name, set := range map[string]string{
		"the number was changed": "mark_ns = mark_ns + 1",
		"the text was changed":   "mark = 'soon'",
		"the number is gone":     "mark_ns = NULL",
		"the text is gone":       "mark = ''",
		"no whole tick":          "mark_ns = 1893456000000000001, mark = '2030-01-01T00:00:00.000000001Z'",
		"before the epoch":       "mark_ns = 0, mark = '1970-01-01T00:00:00Z'",
		"past the end":           "mark_ns = 9000000000000000000, mark = '2255-03-14T16:00:00Z'",
	} {
		s, db, o := onSQLite.open(t)
		m, err := s.HighWater().Open(t.Context(), 5, snowflake.DefaultLayout())
		require.NoError(t, err)
		require.NoError(t, m.Close(t.Context(), noon))
		_, err = db.Exec("UPDATE " + o.Prefix + "mark SET " + set)
		require.NoError(t, err)
		m, err = s.HighWater().Open(t.Context(), 5, snowflake.DefaultLayout())
		require.ErrorIs(t, err, snowflake.ErrDamaged, name)
		require.False(t, snowflake.Retryable(err))
		require.Nil(t, m)
	}
}

func TestVersionsEnd(t *testing.T) {
	onEach(t, func(t *testing.T, d database) {
		s, db, o := d.open(t)
		old := swap(t, s, snowflake.Record{}, someRecord(17))
		_, err := db.Exec("UPDATE " + o.Prefix + "lease SET version = 9223372036854775806")
		require.NoError(t, err)
		old.Version = 1<<63 - 2
		last := swap(t, s, old, someRecord(17))
		require.Equal(t, uint64(1<<63-1), last.Version)
		_, err = s.Swap(t.Context(), last, someRecord(17))
		require.ErrorContains(t, err, "last version")
		require.NotErrorIs(t, err, snowflake.ErrConflict)
		beyond := last
		beyond.Version++
		_, err = s.Swap(t.Context(), beyond, someRecord(17))
		require.ErrorIs(t, err, snowflake.ErrConflict)
		all, err := s.Records(t.Context(), 2)
		require.NoError(t, err)
		require.Equal(t, []snowflake.Record{last}, all)
	})
}

func TestSwapRefusesWhatWouldNotComeBack(t *testing.T) {
	onEach(t, func(t *testing.T, d database) {
		s, _, _ := d.open(t)
		for name, change := range map[string]func(r *snowflake.Record){
			"a long owner":       func(r *snowflake.Record) { r.Owner = strings.Repeat("x", 256) },
			"a long nonce":       func(r *snowflake.Record) { r.Nonce = strings.Repeat("x", 256) },
			"a nonce of bytes":   func(r *snowflake.Record) { r.Nonce = "\xff" },
			"a nonce with zeros": func(r *snowflake.Record) { r.Nonce = "a\x00" },
			"a long layout":      func(r *snowflake.Record) { r.Layout = strings.Repeat("x", 256) },
			"a high token":       func(r *snowflake.Record) { r.Token = 1 << 63 },
			"a far ceiling":      func(r *snowflake.Record) { r.Ceiling = time.Date(2263, 1, 1, 0, 0, 0, 0, time.UTC) },
			"an early ceiling":   func(r *snowflake.Record) { r.Ceiling = time.Date(1600, 1, 1, 0, 0, 0, 0, time.UTC) },
			"a negative region":  func(r *snowflake.Record) { r.Region = -1 },
			"a negative worker":  func(r *snowflake.Record) { r.Worker = -2 },
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
		all, err := s.Records(t.Context(), 2)
		require.NoError(t, err)
		require.Empty(t, all)
	})
}

func TestOwnersOfAnyBytesComeBack(t *testing.T) {
	onEach(t, func(t *testing.T, d database) {
		s, _, _ := d.open(t)
		for worker, owner := range []string{"", "a\x00b", "\xff\xfe", strings.Repeat("\xff", 255), `"quoted"`, `"`, "größe", strings.Repeat("\x00", 255)} {
			r := someRecord(worker)
			r.Owner = owner
			want := swap(t, s, snowflake.Record{}, r)
			all, err := s.Records(t.Context(), 2)
			require.NoError(t, err)
			require.Equal(t, want, all[worker])
			require.Equal(t, owner, all[worker].Owner)
		}
	})
}

// Only databases with a clock of their own are asked for the time.
func TestWhoTellsTheTime(t *testing.T) {
	onEach(t, func(t *testing.T, d database) {
		s, _, _ := d.open(t)
		_, tells := s.(interface {
			Time(ctx context.Context) (time.Time, error)
		})
		require.Equal(t, d.dialect != SQLite, tells)
		require.False(t, s.MayForget())
	})
	zones := map[*database]string{&onPostgres: "&timezone=Asia/Kolkata", &onMariaDB: "?time_zone=%27%2B05:30%27"}
	for d, zone := range zones {
		t.Run(d.name+" in another zone", func(t *testing.T) {
			s, err := Open(t.Context(), d.connect(t, d.address(t)+zone), d.dialect, Options{Prefix: newPrefix()})
			require.NoError(t, err)
			now, err := s.(*timedStore).Time(t.Context())
			require.NoError(t, err)
			require.WithinDuration(t, time.Now(), now, time.Minute)
		})
	}
}

func TestForgetfulSettingsAreRefused(t *testing.T) {
	check := func(t *testing.T, d database, address, why string) {
		t.Helper()
		db, o := d.connect(t, address), Options{Prefix: newPrefix()}
		_, err := Open(t.Context(), db, d.dialect, o)
		require.ErrorContains(t, err, why)
		o.MayForget = true
		s, err := Open(t.Context(), db, d.dialect, o)
		require.NoError(t, err)
		require.True(t, s.MayForget())
		m, err := s.HighWater().Open(t.Context(), 5, snowflake.DefaultLayout())
		require.ErrorContains(t, err, "MayForget")
		require.False(t, snowflake.Retryable(err))
		require.Nil(t, m)

		l, err := snowflake.AcquireLease(t.Context(), s, snowflake.LeaseConfig{})
		require.NoError(t, err)
		require.True(t, l.Grant().Floor.After(time.Now().Add(time.Minute)), "it settles")
		require.NoError(t, l.Close(t.Context()))
	}
	t.Run("SQLite", func(t *testing.T) {
		for pragmas, why := range map[string]string{
			"": "journal_mode is delete and synchronous is 2",
			"?_pragma=journal_mode(WAL)&_pragma=synchronous(NORMAL)": "journal_mode is wal and synchronous is 1",
			"?_pragma=synchronous(OFF)":                              "synchronous is 0",
			"?_pragma=journal_mode(MEMORY)&_pragma=synchronous(3)":   "journal_mode is memory",
		} {
			check(t, onSQLite, "file:"+filepath.Join(t.TempDir(), "ids.db")+pragmas, why)
		}
		_, err := Open(t.Context(), onSQLite.connect(t, ":memory:"), SQLite, Options{})
		require.ErrorContains(t, err, "in memory")
		_, err = Open(t.Context(), onSQLite.connect(t, "file:"+filepath.Join(t.TempDir(), "ids.db")+"?_pragma=synchronous(EXTRA)"), SQLite, Options{})
		require.NoError(t, err)
	})
	t.Run("PostgreSQL", func(t *testing.T) {
		check(t, onPostgres, onPostgres.address(t)+"&synchronous_commit=off", "synchronous_commit is off")
	})
	t.Run("MariaDB", func(t *testing.T) {
		db := onMariaDB.connect(t, onMariaDB.address(t))
		_, err := db.Exec("SET GLOBAL innodb_flush_log_at_trx_commit = 2")
		require.NoError(t, err)
		t.Cleanup(func() {
			_, err := db.Exec("SET GLOBAL innodb_flush_log_at_trx_commit = 1")
			require.NoError(t, err)
		})
		check(t, onMariaDB, onMariaDB.address(t), "innodb_flush_log_at_trx_commit is 2")
	})
}

func TestReplicasAreNotBelieved(t *testing.T) {
	refused := func(t *testing.T, s Store) {
		t.Helper()
		for _, region := range []int{2, 3} { // with records, and without
			_, err := s.Records(t.Context(), region)
			require.ErrorIs(t, err, errReplica)
		}
		m, err := s.HighWater().Open(t.Context(), 5, snowflake.DefaultLayout())
		require.Error(t, err)
		require.Nil(t, m)
	}
	prepare := func(t *testing.T, d database) (Store, Options) {
		t.Helper()
		s, _, o := d.open(t)
		swap(t, s, snowflake.Record{}, someRecord(17))
		m, err := s.HighWater().Open(t.Context(), 5, snowflake.DefaultLayout())
		require.NoError(t, err)
		require.NoError(t, m.Close(t.Context(), noon))
		return s, o
	}
	t.Run("PostgreSQL", func(t *testing.T) {
		_, o := prepare(t, onPostgres)
		replica := servertest.Need(t, func() (*servers.Server, error) { return servers.PostgresReplica(servertest.Need(t, postgres).Port()) })
		t.Cleanup(replica.Stop)
		s, err := Open(t.Context(), onPostgres.connect(t, replica.DSN()), Postgres, o)
		require.NoError(t, err)
		refused(t, s)
		_, err = s.Swap(t.Context(), snowflake.Record{}, someRecord(18))
		require.Error(t, err)
		require.NotErrorIs(t, err, snowflake.ErrConflict)
	})
	t.Run("MariaDB", func(t *testing.T) {
		s, _ := prepare(t, onMariaDB)
		db := onMariaDB.connect(t, onMariaDB.address(t))
		_, err := db.Exec("SET GLOBAL read_only = 1")
		require.NoError(t, err)
		t.Cleanup(func() {
			_, err := db.Exec("SET GLOBAL read_only = 0")
			require.NoError(t, err)
		})
		refused(t, s)
	})
}

// A transaction that the database calls off is an error, and no conflict: what it means is
// found out by reading back.
func TestSerializableTransactions(t *testing.T) {
	s, _ := onPostgresSerializably.pair(t)
	leases := make([]*snowflake.WorkerLease, 40)
	var group sync.WaitGroup
	for i := range leases {
		group.Go(func() {
			var err error
			if leases[i], err = snowflake.AcquireLease(t.Context(), s, snowflake.LeaseConfig{}); err != nil {
				t.Error(err)
			}
		})
	}
	group.Wait()
	codes := make(map[int]bool)
	for _, l := range leases {
		codes[l.Grant().Code] = true
		require.NoError(t, l.Close(t.Context()))
	}
	require.Len(t, codes, len(leases))
}

// Somebody's transaction may keep a row for long.
func TestCallsEndWithTheirContext(t *testing.T) {
	onEach(t, func(t *testing.T, d database) {
		s, db, o := d.open(t)
		now := swap(t, s, snowflake.Record{}, someRecord(17))
		m, err := s.HighWater().Open(t.Context(), 5, snowflake.DefaultLayout())
		require.NoError(t, err)
		tx, err := db.Begin()
		require.NoError(t, err)
		for _, statement := range []string{"UPDATE %slease SET released = released", "UPDATE %smark SET beat = beat"} {
			_, err := tx.Exec(fmt.Sprintf(statement, o.Prefix))
			require.NoError(t, err)
		}
		for name, call := range map[string]func(ctx context.Context) error{
			"Swap":    func(ctx context.Context) error { _, err := s.Swap(ctx, now, someRecord(17)); return err },
			"Advance": func(ctx context.Context) error { return m.Advance(ctx, noon) },
		} {
			ctx, cancel := context.WithTimeout(t.Context(), 100*time.Millisecond)
			began := time.Now()
			err := call(ctx)
			cancel()
			require.Error(t, err, name)
			require.NotErrorIs(t, err, snowflake.ErrConflict, name)
			require.Less(t, time.Since(began), 5*time.Second, name)
		}
		all, err := s.Records(t.Context(), 2)
		require.NoError(t, err, "readers do not wait")
		require.Equal(t, []snowflake.Record{now}, all)
		require.NoError(t, tx.Rollback())
		require.Eventually(t, func() bool { return m.Advance(t.Context(), noon) == nil }, 10*time.Second, 10*time.Millisecond)
	})
}
