//go:build unix

package sqlstore

import (
	"database/sql"
	"errors"
	"fmt"
	"io"
	"net"
	"os"
	"os/exec"
	"os/user"
	"path/filepath"
	"strconv"
	"sync"
	"syscall"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
)

// Real servers, each started by the first test that needs it, on a free port of the
// loopback interface and in a folder of its own, and stopped with the test process, even
// if that is killed.

// server is a database server that runs. What it cannot do without is in err.
type server struct {
	dir  string
	port int
	stop func()
	err  error
	skip string
}

var (
	startPostgres  = sync.OnceValue(func() *server { return started(postgresServer) })
	startMariaDB   = sync.OnceValue(func() *server { return started(mariaServer) })
	startPgBouncer = sync.OnceValue(func() *server { return started(bouncerServer) })

	runningMu sync.Mutex
	running   []*server
)

func TestMain(m *testing.M) {
	code := m.Run()
	for i := len(running) - 1; i >= 0; i-- {
		running[i].end()
	}
	os.Exit(code)
}

// end stops a server and removes its folder.
func (s *server) end() {
	if s.stop != nil {
		s.stop()
	}
	_ = os.RemoveAll(s.dir)
}

func started(start func(*server) error) *server {
	s := &server{}
	if s.err = start(s); s.err != nil {
		s.end()
	} else {
		runningMu.Lock()
		running = append(running, s)
		runningMu.Unlock()
	}
	return s
}

// need skips the test if the server is not installed.
func need(t *testing.T, s *server) *server {
	t.Helper()
	if s.skip != "" {
		t.Skip(s.skip)
	}
	require.NoError(t, s.err)
	return s
}

// binary finds a program in PATH or one of the folders.
func binary(name string, folders ...string) string {
	if path, err := exec.LookPath(name); err == nil {
		return path
	}
	for _, folder := range folders {
		found, _ := filepath.Glob(filepath.Join(folder, name))
		if len(found) > 0 {
			return found[len(found)-1]
		}
	}
	return ""
}

// account is whom a server runs as: servers refuse to be root. nil: as the test itself.
func account(names ...string) *syscall.Credential {
	if os.Getuid() != 0 {
		return nil
	}
	for _, name := range append(names, "nobody") {
		if u, err := user.Lookup(name); err == nil {
			uid, _ := strconv.ParseUint(u.Uid, 10, 32)
			gid, _ := strconv.ParseUint(u.Gid, 10, 32)
			return &syscall.Credential{Uid: uint32(uid), Gid: uint32(gid)}
		}
	}
	return nil
}

// folder makes the server's folder, for its account.
func (s *server) folder(as *syscall.Credential) (err error) {
	if s.dir, err = os.MkdirTemp("", "sqlstore"); err != nil || as == nil {
		return err
	}
	return os.Chown(s.dir, int(as.Uid), int(as.Gid))
}

// run runs a program to its end.
func (s *server) run(as *syscall.Credential, name string, args ...string) error {
	cmd := exec.Command(name, args...)
	cmd.Dir, cmd.SysProcAttr = s.dir, &syscall.SysProcAttr{Credential: as}
	if out, err := cmd.CombinedOutput(); err != nil {
		return fmt.Errorf("%s: %w: %s", name, err, out)
	}
	return nil
}

// serve starts a program that goes on until the test process ends, and returns when
// ready says nil.
func (s *server) serve(as *syscall.Credential, signal string, ready func() error, name string, args ...string) error {
	log, err := os.Create(filepath.Join(s.dir, "log"))
	if err != nil {
		return err
	}
	defer func() { _ = log.Close() }()
	// The end of the pipe is the sign to stop, and comes however this process ends.
	cmd := exec.Command("sh", append([]string{"-c", `"$@" & server=$!; cat >/dev/null; kill -` + signal + ` $server; wait $server; rm -rf "$0"`, s.dir, name}, args...)...)
	cmd.Dir, cmd.SysProcAttr = s.dir, &syscall.SysProcAttr{Credential: as, Setpgid: true}
	cmd.Stdout, cmd.Stderr = log, log
	var life io.WriteCloser
	if life, err = cmd.StdinPipe(); err != nil {
		return err
	}
	if err := cmd.Start(); err != nil {
		return err
	}
	s.stop = func() {
		_ = life.Close()
		_ = cmd.Wait()
	}
	for deadline := time.Now().Add(time.Minute); ; time.Sleep(50 * time.Millisecond) {
		if err = ready(); err == nil {
			return nil
		}
		if time.Now().After(deadline) {
			said, _ := os.ReadFile(log.Name())
			return fmt.Errorf("%s does not answer: %w: %s", name, err, said)
		}
	}
}

func freePort() (int, error) {
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		return 0, err
	}
	return l.Addr().(*net.TCPAddr).Port, l.Close()
}

func answers(driver, address string) func() error {
	return func() error {
		db, err := sql.Open(driver, address)
		if err != nil {
			return err
		}
		return errors.Join(db.Ping(), db.Close())
	}
}

const postgresFolders = "/usr/lib/postgresql/*/bin"

func (s *server) postgresAddress() string {
	return fmt.Sprintf("postgres://snowflake@127.0.0.1:%d/postgres?sslmode=disable", s.port)
}

func postgresServer(s *server) (err error) {
	initdb, postgres := binary("initdb", postgresFolders), binary("postgres", postgresFolders)
	if initdb == "" || postgres == "" {
		s.skip = "PostgreSQL is not installed: Debian package postgresql"
		return nil
	}
	as := account("postgres")
	if err := s.folder(as); err != nil {
		return err
	}
	data := filepath.Join(s.dir, "data")
	if err := s.run(as, initdb, "-D", data, "-U", "snowflake", "-A", "trust", "-E", "UTF8", "--locale=C", "--no-sync"); err != nil {
		return err
	}
	return s.servePostgres(as, postgres, data)
}

func (s *server) servePostgres(as *syscall.Credential, postgres, data string) (err error) {
	if s.port, err = freePort(); err != nil {
		return err
	}
	return s.serve(as, "INT", answers("pgx", s.postgresAddress()), postgres, "-D", data, "-p", strconv.Itoa(s.port),
		"-c", "listen_addresses=127.0.0.1", "-c", "unix_socket_directories="+s.dir, "-c", "max_connections=200")
}

// startReplica starts a hot standby of the PostgreSQL server.
func startReplica(t *testing.T, primary *server) *server {
	t.Helper()
	backup, postgres := binary("pg_basebackup", postgresFolders), binary("postgres", postgresFolders)
	if backup == "" {
		t.Skip("pg_basebackup is not installed: Debian package postgresql-client")
	}
	as := account("postgres")
	s := &server{}
	require.NoError(t, s.folder(as))
	t.Cleanup(s.end)
	data := filepath.Join(s.dir, "data")
	require.NoError(t, s.run(as, backup, "-D", data, "-R", "-X", "stream", "-c", "fast",
		"-h", "127.0.0.1", "-p", strconv.Itoa(primary.port), "-U", "snowflake"))
	require.NoError(t, s.servePostgres(as, postgres, data))
	return s
}

func bouncerServer(s *server) (err error) {
	pgbouncer := binary("pgbouncer", "/usr/sbin")
	if pgbouncer == "" {
		s.skip = "PgBouncer is not installed: Debian package pgbouncer"
		return nil
	}
	database := startPostgres()
	if database.skip != "" || database.err != nil {
		s.skip = database.skip
		return database.err
	}
	as := account("postgres")
	if err := s.folder(as); err != nil {
		return err
	}
	if s.port, err = freePort(); err != nil {
		return err
	}
	settings, users := filepath.Join(s.dir, "pgbouncer.ini"), filepath.Join(s.dir, "users")
	if err := os.WriteFile(users, []byte(`"snowflake" ""`), 0o644); err != nil {
		return err
	}
	if err := os.WriteFile(settings, fmt.Appendf(nil, `
[databases]
* = host=127.0.0.1 port=%d
[pgbouncer]
listen_addr = 127.0.0.1
listen_port = %d
unix_socket_dir =
auth_type = trust
auth_file = %s
pool_mode = transaction
default_pool_size = 4
max_client_conn = 200
`, database.port, s.port, users), 0o644); err != nil {
		return err
	}
	return s.serve(as, "INT", answers("pgx", s.postgresAddress()+"&default_query_exec_mode=exec"), pgbouncer, settings)
}

func (s *server) mariaAddress() string {
	return fmt.Sprintf("root@tcp(127.0.0.1:%d)/snowflake", s.port)
}

func mariaServer(s *server) (err error) {
	install, daemon := binary("mariadb-install-db"), binary("mariadbd", "/usr/sbin")
	if install == "" || daemon == "" {
		s.skip = "MariaDB is not installed: Debian package mariadb-server"
		return nil
	}
	as := account("mysql")
	if err := s.folder(as); err != nil {
		return err
	}
	data := filepath.Join(s.dir, "data")
	if err := s.run(as, install, "--no-defaults", "--datadir="+data, "--auth-root-authentication-method=normal", "--skip-test-db"); err != nil {
		return err
	}
	if s.port, err = freePort(); err != nil {
		return err
	}
	system := fmt.Sprintf("root@tcp(127.0.0.1:%d)/mysql", s.port)
	if err := s.serve(as, "TERM", answers("mysql", system), daemon, "--no-defaults", "--datadir="+data, "--port="+strconv.Itoa(s.port),
		"--bind-address=127.0.0.1", "--socket="+filepath.Join(s.dir, "socket"), "--pid-file="+filepath.Join(s.dir, "pid"), "--max-connections=200"); err != nil {
		return err
	}
	db, err := sql.Open("mysql", system)
	if err != nil {
		return err
	}
	_, err = db.Exec("CREATE DATABASE snowflake CHARACTER SET utf8mb4")
	return errors.Join(err, db.Close())
}
