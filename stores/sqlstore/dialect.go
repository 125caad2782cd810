package sqlstore

import (
	"fmt"
	"regexp"
	"strconv"
	"strings"
)

// Dialect says which database it is.
type Dialect uint8

// The databases. MySQL is MariaDB too.
const (
	Postgres Dialect = iota + 1
	MySQL
	SQLite
)

// String returns the name.
func (d Dialect) String() string {
	if s, ok := dialects[d]; ok {
		return s.name
	}
	return fmt.Sprintf("Dialect(%d)", uint8(d))
}

// speech is how a dialect says it.
type speech struct {
	name string

	// Types of columns. exact is text that is compared byte by byte.
	text, exact, instant, tableOptions string

	insert, insertEnd string // that does nothing where there is a row already
	now               string // for updated_at
	nowForGood        string // instead of now: commits what it is written with for good, "" if all are
	commit            string // for connections that do not commit each statement, "" if all do
	perConnection     bool   // settings are those of a connection
	nowMicros         string // the same as a number, since 1970
	ageMicros         string // of updated_at
	replica           string // whether this is not the primary
	forgets           string // a query, see naming: why an acknowledged commit may be lost, "" if it may not
	tableForgets      string // the same for one table, "" if tables are all alike
	numbered          bool   // parameters are $1, $2
}

const anyText = "TEXT"

var dialects = map[Dialect]speech{
	Postgres: {
		name: "PostgreSQL",
		text: anyText, exact: anyText + ` COLLATE "C"`, instant: "TIMESTAMPTZ",
		insert: "INSERT INTO", insertEnd: "ON CONFLICT DO NOTHING",
		now: "clock_timestamp()",
		// Of this transaction only, and read when it commits.
		nowForGood: "CASE WHEN current_setting('synchronous_commit') IN ('on', 'remote_apply') THEN clock_timestamp()" +
			" WHEN set_config('synchronous_commit', 'on', true) = 'on' THEN clock_timestamp() END",
		nowMicros: "CAST(EXTRACT(EPOCH FROM clock_timestamp()) * 1000000 AS BIGINT)",
		ageMicros: "CAST(EXTRACT(EPOCH FROM clock_timestamp() - updated_at) * 1000000 AS BIGINT)",
		replica:   "pg_is_in_recovery()",
		forgets: `SELECT CASE WHEN current_setting('fsync') = 'off' THEN 'fsync is off'
			WHEN current_setting('synchronous_commit') = 'off' THEN 'synchronous_commit is off' ELSE '' END`,
		tableForgets: `SELECT CASE relpersistence WHEN 'p' THEN '' WHEN 'u' THEN 'it is UNLOGGED' ELSE 'it is temporary' END
			FROM pg_class WHERE oid = CAST('{table}' AS regclass)`,
		numbered: true,
	},
	MySQL: {
		name: "MySQL",
		// Collations of text ignore case or spaces at the end, or both: nonces are bytes.
		text: "VARCHAR(1100) CHARACTER SET utf8mb4", exact: "VARBINARY(255)", instant: "DATETIME(6)", tableOptions: " ENGINE=InnoDB",
		// IGNORE also makes warnings of values that do not fit: admit has looked at all.
		insert:    "INSERT IGNORE INTO",
		now:       "UTC_TIMESTAMP(6)",
		commit:    "COMMIT", // autocommit may be off: for the server, a user or a connection
		nowMicros: "TIMESTAMPDIFF(MICROSECOND, '1970-01-01', UTC_TIMESTAMP(6))",
		ageMicros: "TIMESTAMPDIFF(MICROSECOND, updated_at, UTC_TIMESTAMP(6))",
		replica:   "(CAST(@@GLOBAL.read_only AS CHAR) NOT IN ('0', 'OFF') OR @@GLOBAL.innodb_read_only)",
		forgets: `SELECT CASE WHEN @@GLOBAL.innodb_flush_log_at_trx_commit NOT IN (1, 3)
			THEN CONCAT('innodb_flush_log_at_trx_commit is ', @@GLOBAL.innodb_flush_log_at_trx_commit)
			WHEN @@GLOBAL.log_bin AND @@GLOBAL.sync_binlog <> 1 THEN CONCAT('sync_binlog is ', @@GLOBAL.sync_binlog) ELSE '' END`,
		// A server may make a table of another engine than it was asked for.
		tableForgets: `SELECT CASE engine WHEN 'InnoDB' THEN '' ELSE CONCAT('its engine is ', engine) END
			FROM information_schema.tables WHERE table_schema = COALESCE(NULLIF('{schema}', ''), DATABASE()) AND table_name = '{name}'`,
	},
	SQLite: {
		name: "SQLite",
		text: anyText, exact: anyText, instant: anyText,
		insert: "INSERT INTO", insertEnd: "ON CONFLICT DO NOTHING",
		now:           "strftime('%Y-%m-%dT%H:%M:%fZ', 'now')",
		nowMicros:     "CAST((julianday('now') - 2440587.5) * 86400000000 AS INTEGER)",
		ageMicros:     "CAST((julianday('now') - julianday(updated_at)) * 86400000000 AS INTEGER)",
		replica:       "0",
		perConnection: true,
		// Without WAL and EXTRA the journal's removal is not synced: power that fails
		// then brings it back, and the journal undoes the commit.
		forgets: `SELECT COALESCE((
			SELECT CASE WHEN file = '' THEN 'it is in memory, and another one for each connection'
			WHEN synchronous < 2 OR (journal_mode <> 'wal' AND synchronous < 3) OR journal_mode IN ('off', 'memory')
			THEN 'journal_mode is ' || journal_mode || ' and synchronous is ' || synchronous ELSE '' END
			FROM pragma_database_list AS d, pragma_synchronous AS s, pragma_journal_mode AS j
			WHERE d.name = COALESCE(NULLIF('{schema}', ''), 'main') COLLATE NOCASE AND s.schema = d.name AND j.schema = d.name
			), 'this connection has no database {schema}')`,
	},
}

// format is that of the rows. A release that changes their meaning counts it up; this
// one refuses to read others, and writes nothing over them.
const format = 1

// Schema returns the statements that make the tables, as Open runs them where the
// tables are missing. It returns nil for an unknown dialect or a bad prefix.
func Schema(d Dialect, prefix string) []string {
	s, ok := dialects[d]
	if !ok {
		return nil
	}
	lease, mark, err := tables(prefix)
	if err != nil {
		return nil
	}
	fill := strings.NewReplacer("{text}", s.text, "{exact}", s.exact, "{instant}", s.instant, "{options}", s.tableOptions).Replace
	return []string{
		"CREATE TABLE IF NOT EXISTS " + lease + fill(` (
	region     INTEGER NOT NULL,
	worker     INTEGER NOT NULL,
	owner      {text} NOT NULL,
	nonce      {exact} NOT NULL,
	token      BIGINT NOT NULL,
	version    BIGINT NOT NULL,
	ceiling_ns BIGINT,
	ceiling    {text} NOT NULL,
	released   BOOLEAN NOT NULL,
	layout     {text} NOT NULL,
	format     INTEGER NOT NULL,
	updated_at {instant} NOT NULL,
	PRIMARY KEY (region, worker)
){options}`),
		"CREATE TABLE IF NOT EXISTS " + mark + fill(` (
	code       INTEGER NOT NULL,
	owner      {text} NOT NULL,
	session    {exact} NOT NULL,
	beat       BIGINT NOT NULL,
	mark_ns    BIGINT,
	mark       {text} NOT NULL,
	layout     {text} NOT NULL,
	format     INTEGER NOT NULL,
	updated_at {instant} NOT NULL,
	PRIMARY KEY (code)
){options}`),
	}
}

var prefixes = regexp.MustCompile(`^([A-Za-z_][A-Za-z0-9_]{0,50}\.)?[A-Za-z_][A-Za-z0-9_]{0,50}$`)

// tables returns the names of the tables.
func tables(prefix string) (lease, mark string, err error) {
	if prefix == "" {
		prefix = "snowflake_"
	}
	if !prefixes.MatchString(prefix) {
		return "", "", fmt.Errorf("sqlstore: Options.Prefix is %q, must be letters, digits and _, at most 51, after at most one schema and a point", prefix)
	}
	return prefix + "lease", prefix + "mark", nil
}

// naming writes a table's name into a query: {table}, and of that {schema}, which may be
// empty, and {name}.
func naming(table, query string) string {
	schema, name, found := strings.Cut(table, ".")
	if !found {
		schema, name = "", table
	}
	return strings.NewReplacer("{table}", table, "{schema}", schema, "{name}", name).Replace(query)
}

// placed writes parameters as the dialect does. Statements have no other question marks.
func (s speech) placed(statement string) string {
	if !s.numbered {
		return statement
	}
	parts := strings.Split(statement, "?")
	var b strings.Builder
	for i, part := range parts {
		if i > 0 {
			b.WriteString("$" + strconv.Itoa(i))
		}
		b.WriteString(part)
	}
	return b.String()
}
