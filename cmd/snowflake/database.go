package main

import (
	"context"
	"database/sql"
	"errors"
	"fmt"
	"io"
	"net"
	"net/url"
	"regexp"
	"strconv"
	"strings"
	"time"

	"github.com/go-sql-driver/mysql"
	_ "github.com/jackc/pgx/v5/stdlib" // the driver pgx
	"github.com/spf13/cobra"
	_ "modernc.org/sqlite" // the driver sqlite

	"github.com/snowfence/snowflake/stores/sqlstore"
)

// databaseFlags say which column of a database is read.
type databaseFlags struct{ address, table, query string }

func (f *databaseFlags) addFlags(c *cobra.Command) {
	c.Flags().StringVar(&f.address, "db", "", "read a column of this database: sqlite:PATH, postgres://..., mysql://...")
	c.Flags().StringVar(&f.table, "table", "", "the table, whose --column is \"id\" if that is not given")
	c.Flags().StringVar(&f.query, "query", "", "instead, a SELECT of the IDs, and of the times of insertion if --time-column is given")
}

func (f *databaseFlags) given() bool { return f.address != "" }

// plainName is what may stand in a statement as it is. Others need --query.
var plainName = regexp.MustCompile(`^[\p{L}_][\p{L}\p{N}_$]*(\.[\p{L}_][\p{L}\p{N}_$]*)*$`)

// statement returns what is to be read.
func (f *databaseFlags) statement(in *input) (string, error) {
	if (f.table == "") == (f.query == "") {
		return "", usage("--db needs --table or --query, one of them")
	}
	if f.query != "" {
		return strings.TrimRight(f.query, "; \t\r\n"), nil
	}
	column := in.column
	if column == "" {
		column = "id"
	}
	names := []string{f.table, column}
	if in.timeColumn != "" {
		names = append(names, in.timeColumn)
	}
	for _, name := range names {
		if !plainName.MatchString(name) {
			return "", usage("%q is no plain name: use --query", name)
		}
	}
	statement := "SELECT " + strings.Join(names[1:], ", ") + " FROM " + f.table
	if in.timeColumn != "" {
		statement += " ORDER BY " + in.timeColumn // so that "out of order" is against the order of insertion
	}
	return statement, nil
}

// open sets what in reads to the rows of the statement. total is their number, if it is
// worth counting them.
func (f *databaseFlags) open(ctx context.Context, in *input, count bool) (closer io.ReadCloser, total int64, err error) {
	statement, err := f.statement(in)
	if err != nil {
		return nil, 0, err
	}
	db, _, err := openDatabase(f.address, "mode=ro&_pragma=busy_timeout(5000)")
	if err != nil {
		return nil, 0, err
	}
	total = -1
	if count {
		if err := db.QueryRowContext(ctx, "SELECT count(*) FROM ("+statement+") AS ids").Scan(&total); err != nil {
			_ = db.Close()
			return nil, 0, err
		}
	}
	in.rowsOf = func(ctx context.Context, use func(row) error) error {
		return readRows(ctx, db, statement, in.timeColumn != "", use)
	}
	return database{db}, total, nil
}

// database is closed where a file would be.
type database struct{ *sql.DB }

func (database) Read([]byte) (int, error) { return 0, io.EOF }

func readRows(ctx context.Context, db *sql.DB, statement string, withTime bool, use func(row) error) (err error) {
	rows, err := db.QueryContext(ctx, statement)
	if err != nil {
		return err
	}
	defer func() { _ = rows.Close() }()
	var id, when any
	into := []any{&id}
	if withTime {
		into = append(into, &when)
	}
	for place := int64(1); rows.Next(); place++ {
		if err := rows.Scan(into...); err != nil {
			return err
		}
		read := row{place: place}
		if read.text, read.err = columnText(id); read.err == nil && withTime {
			read.when, read.err = columnText(when)
		}
		if err := use(read); err != nil {
			return err
		}
	}
	return rows.Err()
}

func columnText(value any) (string, error) {
	switch value := value.(type) {
	case nil:
		return "", errors.New("it is NULL")
	case int64:
		return strconv.FormatInt(value, 10), nil
	case uint64: // MySQL's BIGINT UNSIGNED
		return strconv.FormatUint(value, 10), nil
	case string:
		return value, nil
	case []byte:
		return string(value), nil
	case time.Time:
		return value.UTC().Format(time.RFC3339Nano), nil
	}
	return "", fmt.Errorf("it is a %T, must be a 64-bit integer, text, or a time", value)
}

// openDatabase opens sqlite:PATH, postgres://... or mysql://..., without a word to it yet.
// Errors do not tell the password.
func openDatabase(address, sqliteOptions string) (*sql.DB, sqlstore.Dialect, error) {
	scheme, rest, _ := strings.Cut(address, ":")
	switch scheme {
	case "sqlite":
		db, err := sql.Open("sqlite", "file:"+(&url.URL{Path: rest}).EscapedPath()+"?"+sqliteOptions)
		return db, sqlstore.SQLite, err
	case "postgres", "postgresql":
		if user, _, _ := strings.Cut(rest, "@"); strings.Count(address, "@") > 1 || strings.ContainsAny(strings.TrimPrefix(user, "//"), "/?") && strings.Contains(rest, "@") {
			return nil, 0, usage("it is no address of PostgreSQL: %s", escapes)
		}
		db, err := sql.Open("pgx", address)
		return db, sqlstore.Postgres, err
	case "mysql":
		dsn, err := mysqlAddress(address)
		if err != nil {
			return nil, 0, err
		}
		db, err := sql.Open("mysql", dsn)
		return db, sqlstore.MySQL, err
	}
	return nil, 0, usage("a database must begin with sqlite:, postgres: or mysql:%s", notWith(scheme))
}

// mysqlAddress turns mysql://user:password@host:port/database into what the driver wants.
func mysqlAddress(address string) (string, error) {
	u, err := url.Parse(address)
	if err != nil {
		return "", errors.New("it is no address such as mysql://user:password@host:3306/database: " + escapes)
	}
	cfg := mysql.NewConfig()
	cfg.User = u.User.Username()
	cfg.Passwd, _ = u.User.Password()
	cfg.Net, cfg.Addr, cfg.DBName = "tcp", u.Host, strings.TrimPrefix(u.Path, "/")
	if socket := u.Query().Get("socket"); socket != "" {
		cfg.Net, cfg.Addr = "unix", socket
	} else if u.Port() == "" {
		cfg.Addr = net.JoinHostPort(u.Hostname(), "3306")
	}
	cfg.ParseTime = true
	cfg.Params = map[string]string{"time_zone": "'+00:00'"} // TIMESTAMP is told in the session's
	return cfg.FormatDSN(), nil
}

// escapes is said where an address cannot be read, which may be for its password: so neither
// is its text told, nor what is wrong with it.
const escapes = "other characters of a user or password than letters and digits are written as in a URL, # as %23"

// notWith tells with what an address begins, if that can be no part of a secret.
func notWith(scheme string) string {
	if plainScheme.MatchString(scheme) {
		return ", and not with " + scheme + ":"
	}
	return ""
}

var plainScheme = regexp.MustCompile(`^[a-z]{1,12}$`)
