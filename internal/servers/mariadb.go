//go:build unix

package servers

import (
	"fmt"
	"os"
	"path/filepath"
	"strconv"
)

// MariaDB starts MariaDB with an empty database named snowflake.
func MariaDB() (*Server, error) {
	install, err := find("mariadb-server", "mariadb-install-db")
	if err != nil {
		return nil, err
	}
	daemon, err := find("mariadb-server", "mariadbd", "/usr/sbin")
	if err != nil {
		return nil, err
	}
	admin, err := find("mariadb-client", "mariadb-admin")
	if err != nil {
		return nil, err
	}
	s := &Server{
		signal:  "TERM",
		address: func(port int) string { return fmt.Sprintf("root@tcp(127.0.0.1:%d)/snowflake", port) },
	}
	return launch(s, []string{"mysql"}, func() error {
		port, setup := strconv.Itoa(s.port), filepath.Join(s.dir, "setup.sql")
		if err := os.WriteFile(setup, []byte("CREATE DATABASE IF NOT EXISTS snowflake CHARACTER SET utf8mb4;\n"), 0o644); err != nil { //nolint:gosec // another user reads it
			return err
		}
		s.command = []string{
			daemon, "--no-defaults", "--datadir=" + s.data(), "--port=" + port, "--bind-address=127.0.0.1", "--init-file=" + setup,
			"--socket=" + filepath.Join(s.dir, "socket"), "--pid-file=" + filepath.Join(s.dir, "pid"), "--max-connections=300",
		}
		s.ready = func() error {
			return s.run(admin, "--no-defaults", "--host=127.0.0.1", "--port="+port, "--user=root", "ping")
		}
		return s.run(install, "--no-defaults", "--datadir="+s.data(), "--auth-root-authentication-method=normal", "--skip-test-db")
	})
}
