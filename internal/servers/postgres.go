//go:build unix

package servers

import (
	"fmt"
	"net"
	"os"
	"path/filepath"
	"strconv"
)

const (
	postgresFolders = "/usr/lib/postgresql/*/bin"
	postgresAccount = "postgres"
)

func postgresDSN(port int) string {
	return fmt.Sprintf("postgres://snowflake@127.0.0.1:%d/postgres?sslmode=disable", port)
}

// Postgres starts PostgreSQL. Settings are those of postgresql.conf, as "name=value".
func Postgres(settings ...string) (*Server, error) {
	initdb, err := find("postgresql", "initdb", postgresFolders)
	if err != nil {
		return nil, err
	}
	s := &Server{}
	return launch(s, []string{postgresAccount}, func() error {
		if err := s.postgres(settings); err != nil {
			return err
		}
		return s.run(initdb, "-D", s.data(), "-U", "snowflake", "-A", "trust", "-E", "UTF8", "--locale=C", "--no-sync")
	})
}

// PostgresReplica starts a hot standby of the PostgreSQL server that is reached at a port
// of the loopback interface. It calls itself "replica", for the primary's
// synchronous_standby_names.
func PostgresReplica(port int, settings ...string) (*Server, error) {
	backup, err := find("postgresql-client", "pg_basebackup", postgresFolders)
	if err != nil {
		return nil, err
	}
	s := &Server{}
	return launch(s, []string{postgresAccount}, func() error {
		if err := s.postgres(settings); err != nil {
			return err
		}
		return s.run(backup, "-D", s.data(), "-R", "-X", "stream", "-c", "fast",
			"-d", fmt.Sprintf("host=127.0.0.1 port=%d user=snowflake application_name=replica", port))
	})
}

// Promote makes a replica a primary.
func (s *Server) Promote() error {
	ctl, err := find("postgresql", "pg_ctl", postgresFolders)
	if err != nil {
		return err
	}
	return s.run(ctl, "promote", "-w", "-D", s.data())
}

func (s *Server) data() string { return filepath.Join(s.dir, "data") }

// postgres says how the server is run.
func (s *Server) postgres(settings []string) error {
	postgres, err := find("postgresql", "postgres", postgresFolders)
	if err != nil {
		return err
	}
	ready, err := find("postgresql-client", "pg_isready", postgresFolders)
	if err != nil {
		return err
	}
	port := strconv.Itoa(s.port)
	s.signal, s.address = "INT", postgresDSN
	s.command = []string{postgres, "-D", s.data(), "-p", port, "-c", "listen_addresses=127.0.0.1", "-c", "unix_socket_directories=" + s.dir, "-c", "max_connections=300"}
	for _, setting := range settings {
		s.command = append(s.command, "-c", setting)
	}
	s.ready = func() error { return s.run(ready, "-h", "127.0.0.1", "-p", port, "-U", "snowflake", "-d", "postgres") }
	return nil
}

// PgBouncer starts PgBouncer in transaction mode before a PostgreSQL server. Its clients
// must not prepare statements: pgx is told so by default_query_exec_mode=exec.
func PgBouncer(database *Server) (*Server, error) {
	pgbouncer, err := find("pgbouncer", "pgbouncer", "/usr/sbin")
	if err != nil {
		return nil, err
	}
	s := &Server{signal: "INT", address: func(port int) string { return postgresDSN(port) + "&default_query_exec_mode=exec" }}
	return launch(s, []string{postgresAccount}, func() error {
		host, port, err := net.SplitHostPort(database.Address())
		if err != nil {
			return err
		}
		settings, users := filepath.Join(s.dir, "pgbouncer.ini"), filepath.Join(s.dir, "users")
		if err := os.WriteFile(users, []byte(`"snowflake" ""`), 0o644); err != nil { //nolint:gosec // another user reads it
			return err
		}
		s.command = []string{pgbouncer, settings}
		text := fmt.Appendf(nil, `
[databases]
* = host=%s port=%s
[pgbouncer]
listen_addr = 127.0.0.1
listen_port = %d
unix_socket_dir =
auth_type = trust
auth_file = %s
pool_mode = transaction
default_pool_size = 4
max_client_conn = 300
`, host, port, s.port, users)
		return os.WriteFile(settings, text, 0o644) //nolint:gosec // another user reads it
	})
}
