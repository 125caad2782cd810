package sqlstore

import (
	"database/sql"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/snowfence/snowflake"
	"github.com/snowfence/snowflake/internal/servers"
	"github.com/snowfence/snowflake/internal/servers/servertest"
	"github.com/stretchr/testify/require"
)

// What is acknowledged stays, however the connection that it went through was set.

// acknowledged writes a record and a mark, and returns the record.
func acknowledged(t *testing.T, s Store) snowflake.Record {
	t.Helper()
	m, err := s.HighWater().Open(t.Context(), 5, snowflake.DefaultLayout())
	require.NoError(t, err)
	require.NoError(t, m.Advance(t.Context(), noon))
	now := swap(t, s, snowflake.Record{}, someRecord(17))
	return swap(t, s, now, someRecord(17))
}

// requireThere requires that what acknowledged has written is there.
func requireThere(t *testing.T, s Store, db *sql.DB, o Options, want snowflake.Record) {
	t.Helper()
	records, err := s.Records(t.Context(), 2)
	require.NoError(t, err)
	require.Equal(t, []snowflake.Record{want}, records)
	var mark string
	require.NoError(t, db.QueryRow("SELECT mark FROM "+o.Prefix+"mark WHERE code = 5").Scan(&mark))
	require.Equal(t, "2030-06-01T12:00:00Z", mark)
}

func TestWritesAreCommittedWithoutAutocommit(t *testing.T) {
	d := onMariaDBWithoutAutocommit
	other, db, o := onMariaDB.open(t)
	pool, err := sql.Open(d.driver, d.address(t))
	require.NoError(t, err)
	s, err := Open(t.Context(), pool, d.dialect, o)
	require.NoError(t, err)
	want := acknowledged(t, s)
	require.NoError(t, pool.Close(), "as a process that ends") // which rolls back what is open
	requireThere(t, other, db, o, want)
}

// A read begins a transaction where nothing ends it, and the next one of that connection
// would see what it saw.
func TestReadsAreOfNowWithoutAutocommit(t *testing.T) {
	d := onMariaDBWithoutAutocommit
	other, _, o := onMariaDB.open(t)
	db := d.connect(t, d.address(t))
	db.SetMaxOpenConns(1)
	s, err := Open(t.Context(), db, d.dialect, o)
	require.NoError(t, err)
	_, err = db.Exec("SELECT * FROM " + o.Prefix + "lease") // somebody else's
	require.NoError(t, err)
	for worker := range 3 {
		swap(t, other, snowflake.Record{}, someRecord(worker))
		records, err := s.Records(t.Context(), 2)
		require.NoError(t, err)
		require.Len(t, records, worker+1)
	}
	var open int
	require.NoError(t, db.QueryRow("SELECT @@in_transaction").Scan(&open))
	require.Zero(t, open, "it leaves no transaction behind")
}

// A write that failed must not be committed by whoever is given its connection next.
func TestFailedWritesAreNotCommittedLater(t *testing.T) {
	d := onMariaDBWithoutAutocommit
	other, plain, o := onMariaDB.open(t)
	now := swap(t, other, snowflake.Record{}, someRecord(17))
	db := d.connect(t, d.address(t)+"&innodb_lock_wait_timeout=1")
	db.SetMaxOpenConns(1)
	s, err := Open(t.Context(), db, d.dialect, o)
	require.NoError(t, err)
	var before, after int
	require.NoError(t, db.QueryRow("SELECT CONNECTION_ID()").Scan(&before))
	tx, err := plain.Begin()
	require.NoError(t, err)
	_, err = tx.Exec("UPDATE " + o.Prefix + "lease SET released = released")
	require.NoError(t, err)
	_, err = s.Swap(t.Context(), now, someRecord(17))
	require.ErrorContains(t, err, "Lock wait timeout")
	require.NoError(t, tx.Rollback())
	require.NoError(t, db.QueryRow("SELECT CONNECTION_ID()").Scan(&after))
	require.NotEqual(t, before, after)
}

// Somebody sets the role's synchronous_commit after Open has looked at it.
func TestCommitsAreSyncedWhateverTheRoleIsSetTo(t *testing.T) {
	d := onPostgres
	// Commits that do not wait are synced by the WAL writer: not soon.
	server := servertest.Need(t, func() (*servers.Server, error) { return servers.Postgres("wal_writer_delay=10s") })
	t.Cleanup(server.Stop)
	db, o := d.connect(t, server.DSN()), Options{Prefix: newPrefix()}
	s, err := Open(t.Context(), db, d.dialect, o)
	require.NoError(t, err)
	_, err = db.Exec("ALTER ROLE snowflake SET synchronous_commit = off")
	require.NoError(t, err)
	db.SetMaxIdleConns(0)
	var setting string
	require.NoError(t, db.QueryRow("SHOW synchronous_commit").Scan(&setting))
	require.Equal(t, "off", setting)
	want := acknowledged(t, s)
	require.NoError(t, server.Kill())
	require.NoError(t, server.Restart())
	_, err = Open(t.Context(), db, d.dialect, o)
	require.ErrorContains(t, err, "synchronous_commit is off")
	requireThere(t, s, db, o, want)
}

// A setting of the connection is not lowered.
func TestCommitsAreSyncedAtLeast(t *testing.T) {
	d := onPostgres
	for set, want := range map[string]string{"off": "on", "local": "on", "remote_write": "on", "on": "on", "remote_apply": "remote_apply"} {
		db := d.connect(t, d.address(t)+"&synchronous_commit="+set)
		tx, err := db.Begin()
		require.NoError(t, err)
		var got string
		require.NoError(t, tx.QueryRow("SELECT "+dialects[Postgres].nowForGood+" IS NOT NULL, current_setting('synchronous_commit')").Scan(new(bool), &got))
		require.Equal(t, want, got, set)
		require.NoError(t, tx.Rollback())
		require.NoError(t, db.QueryRow("SHOW synchronous_commit").Scan(&got))
		require.Equal(t, set, got, "of the connection")
	}
}

// SQLite's settings are those of a connection, and Open has seen one.
func TestEveryConnectionOfSQLiteIsLookedAt(t *testing.T) {
	d := onSQLite
	s, db, _ := d.open(t)
	db.SetMaxOpenConns(1)
	now := swap(t, s, snowflake.Record{}, someRecord(17))
	m, err := s.HighWater().Open(t.Context(), 5, snowflake.DefaultLayout())
	require.NoError(t, err)
	for pragma, why := range map[string]string{
		"synchronous = OFF":       "synchronous is 0",
		"journal_mode = OFF":      "journal_mode is off",
		"journal_mode = TRUNCATE": "journal_mode is truncate",
	} {
		_, err = db.Exec("PRAGMA " + pragma)
		require.NoError(t, err)
		_, err := s.Swap(t.Context(), now, someRecord(17))
		require.ErrorContains(t, err, "nothing was written", pragma)
		require.ErrorContains(t, err, why)
		require.NotErrorIs(t, err, snowflake.ErrConflict)
		require.ErrorContains(t, m.Advance(t.Context(), noon), why)
		for _, undo := range strings.Split("journal_mode = WAL;synchronous = FULL", ";") {
			_, err = db.Exec("PRAGMA " + undo)
			require.NoError(t, err)
		}
		now = swap(t, s, now, someRecord(17))
		require.NoError(t, m.Advance(t.Context(), noon.Add(time.Second)))
	}
}

// Those who make the tables by hand can make them of a kind that no setting saves.
func TestForgetfulTablesAreRefused(t *testing.T) {
	check := func(t *testing.T, d database, why string, schema func(prefix string) []string) {
		t.Helper()
		for table, name := range []string{"lease", "mark"} {
			db, o := d.connect(t, d.address(t)), Options{Prefix: newPrefix()}
			_, err := db.Exec(schema(o.Prefix)[table])
			require.NoError(t, err)
			_, err = Open(t.Context(), db, d.dialect, o)
			require.ErrorContains(t, err, "table "+o.Prefix+name+" may forget")
			require.ErrorContains(t, err, why)
			o.MayForget = true
			_, err = Open(t.Context(), db, d.dialect, o)
			require.NoError(t, err)
		}
	}
	replaced := func(d Dialect, old, new string) func(prefix string) []string {
		return func(prefix string) []string {
			schema := Schema(d, prefix)
			for i := range schema {
				schema[i] = strings.Replace(schema[i], old, new, 1)
			}
			return schema
		}
	}
	t.Run("PostgreSQL", func(t *testing.T) {
		check(t, onPostgres, "it is UNLOGGED", replaced(Postgres, "CREATE", "CREATE UNLOGGED"))
		s, db, o := onPostgres.open(t)
		swap(t, s, snowflake.Record{}, someRecord(17))
		db.SetMaxOpenConns(1)
		_, err := db.Exec("CREATE TEMPORARY TABLE " + o.Prefix + "lease (LIKE " + o.Prefix + "lease INCLUDING ALL)") // hides the other
		require.NoError(t, err)
		_, err = Open(t.Context(), db, Postgres, o)
		require.ErrorContains(t, err, "it is temporary")
		o.Prefix = "PUBLIC." + strings.ToUpper(o.Prefix) // names that are not quoted have no case
		s, err = Open(t.Context(), db, Postgres, o)
		require.NoError(t, err)
		records, err := s.Records(t.Context(), 2)
		require.NoError(t, err)
		require.Len(t, records, 1)
	})
	t.Run("MariaDB", func(t *testing.T) {
		check(t, onMariaDB, "its engine is MEMORY", replaced(MySQL, "InnoDB", "MEMORY"))
		check(t, onMariaDB, "its engine is MyISAM", replaced(MySQL, "InnoDB", "MyISAM"))
		_, err := Open(t.Context(), onMariaDB.connect(t, onMariaDB.address(t)), MySQL, Options{Prefix: "snowflake." + newPrefix()})
		require.NoError(t, err)
	})
	t.Run("SQLite", func(t *testing.T) {
		db := onSQLite.connect(t, onSQLite.address(t))
		db.SetMaxOpenConns(1) // others have not attached anything
		for name, set := range map[string]struct{ file, pragmas, why string }{
			"gone":     {":memory:", "", "it is in memory"},
			"unsynced": {filepath.Join(t.TempDir(), "ids.db"), "synchronous = OFF", "synchronous is 0"},
			"synced":   {filepath.Join(t.TempDir(), "ids.db"), "synchronous = EXTRA", ""},
			"temp":     {"", "", "no database TEMP"}, // before it has tables
		} {
			if name != "temp" {
				_, err := db.Exec("ATTACH ? AS "+name, set.file)
				require.NoError(t, err)
			}
			if set.pragmas != "" {
				_, err := db.Exec("PRAGMA " + name + "." + set.pragmas)
				require.NoError(t, err)
			}
			_, err := Open(t.Context(), db, SQLite, Options{Prefix: strings.ToUpper(name) + ".ids_"})
			if set.why == "" {
				require.NoError(t, err, name)
				continue
			}
			require.ErrorContains(t, err, set.why, name)
		}
	})
}
