//go:build unix

package servers

import (
	"errors"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"strconv"
	"strings"
	"syscall"
	"testing"
	"time"
)

func started(t *testing.T, start func() (*Server, error)) *Server {
	t.Helper()
	s, err := start()
	var missing *MissingError
	if errors.As(err, &missing) {
		t.Skip(missing)
	}
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(s.Stop)
	return s
}

// Each server answers, survives a kill with its port, and leaves nothing behind.
func TestServers(t *testing.T) {
	if os.Getenv("SERVERS_CHILD") != "" {
		return
	}
	for name, start := range map[string]func() (*Server, error){
		"PostgreSQL": func() (*Server, error) { return Postgres("fsync=off") },
		"MariaDB":    MariaDB,
		"Redis":      func() (*Server, error) { return Redis("appendonly=yes", "appendfsync=always") },
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			s := started(t, start)
			if err := s.listens(); err != nil {
				t.Fatal(err)
			}
			address := s.Address()
			if err := s.Kill(); err != nil {
				t.Fatal(err)
			}
			if err := s.Restart(); err != nil {
				t.Fatal(err)
			}
			if s.Address() != address {
				t.Fatalf("restarted at %s, was at %s", s.Address(), address)
			}
			pid := s.pid
			s.Stop()
			gone(t, pid, s.dir)
		})
	}
}

func TestPostgresHasReplicasAndPoolers(t *testing.T) {
	primary := started(t, func() (*Server, error) { return Postgres("fsync=off") })
	replica := started(t, func() (*Server, error) { return PostgresReplica(primary.Port()) })
	pooler := started(t, func() (*Server, error) { return PgBouncer(primary) })
	if err := replica.Promote(); err != nil {
		t.Fatal(err)
	}
	if err := pooler.listens(); err != nil {
		t.Fatal(err)
	}
}

// Redis does not end by SIGTERM while it begins an append-only file: "can't exit".
func TestRedisEndsWhateverItDoes(t *testing.T) {
	s := started(t, func() (*Server, error) { return Redis() })
	for _, command := range [][]string{
		{"mset", "a", "1", "b", "2", "c", "3"},
		{"config", "set", "rdb-key-save-delay", "10000000"}, // 10 s for each
		{"config", "set", "appendonly", "yes"},
	} {
		if err := s.run("redis-cli", append([]string{"-p", strconv.Itoa(s.port), "-e"}, command...)...); err != nil {
			t.Fatal(err)
		}
	}
	stopped := make(chan bool)
	go func() {
		s.Stop()
		close(stopped)
	}()
	select {
	case <-stopped:
	case <-time.After(time.Minute):
		_ = syscall.Kill(s.pid, syscall.SIGKILL)
		<-stopped
		t.Fatal("it does not end")
	}
}

// Nothing outlives the process that started it, even if that is killed: not while the data
// is prepared, not while the server runs, and not after it was killed.
func TestServersEndWithTheirStarter(t *testing.T) {
	started(t, func() (*Server, error) { return Redis() }).Stop() // is it installed?
	for name, starter := range map[string]func() error{
		"prepares": func() error {
			s := &Server{}
			_, err := launch(s, nil, func() error {
				go func() {
					for {
						if _, err := os.Stat(filepath.Join(s.dir, "data")); err == nil {
							_ = tell(s)
							_ = syscall.Kill(os.Getpid(), syscall.SIGKILL)
						}
						time.Sleep(time.Millisecond)
					}
				}()
				// As initdb does, it writes through another process than the one that is run.
				return s.run("sh", "-c", `sh -c 'while mkdir -p data; do echo >data/$(date +%N); done'; true`)
			})
			return err
		},
		"runs": func() error {
			s, err := Redis()
			if err != nil {
				return err
			}
			return tell(s)
		},
		"was killed": func() error {
			s, err := Redis()
			if err != nil {
				return err
			}
			return errors.Join(tell(s), s.Kill())
		},
	} {
		t.Run(name, func(t *testing.T) {
			if os.Getenv("SERVERS_CHILD") != "" {
				if err := starter(); err != nil {
					t.Fatal(err)
				}
				_ = syscall.Kill(os.Getpid(), syscall.SIGKILL)
			}
			cmd := exec.Command(os.Args[0], "-test.run=^"+strings.ReplaceAll(regexp.QuoteMeta(t.Name()), "/", "$/^")+"$", "-test.v")
			cmd.Env = append(os.Environ(), "SERVERS_CHILD=1")
			said, _ := cmd.Output() // It was killed.
			_, dir, found := strings.Cut(string(said), "dir=")
			if !found {
				t.Fatalf("the child said %q", said)
			}
			gone(t, 0, strings.TrimSpace(strings.SplitN(dir, "\n", 2)[0]))
		})
	}
}

// tell tells which folder must be gone.
func tell(s *Server) error {
	_, err := os.Stdout.WriteString("dir=" + s.dir + "\n")
	return err
}

func TestMissingProgram(t *testing.T) {
	_, err := find("package-of-it", "no-such-program")
	var missing *MissingError
	if !errors.As(err, &missing) || !strings.Contains(err.Error(), "Debian package package-of-it") {
		t.Fatal(err)
	}
}

// gone waits for the end of a process and a folder.
func gone(t *testing.T, pid int, dir string) {
	t.Helper()
	for deadline := time.Now().Add(30 * time.Second); ; time.Sleep(10 * time.Millisecond) {
		_, err := os.Stat(dir)
		if os.IsNotExist(err) && (pid == 0 || syscall.Kill(pid, 0) != nil) {
			return
		}
		if time.Now().After(deadline) {
			t.Fatalf("process %d or folder %s is still there", pid, dir)
		}
	}
}
