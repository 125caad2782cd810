//go:build !unix

package sqlstore

import "testing"

// server is none: the tests that start servers are for unix.
type server struct{}

func startPostgres() *server  { return nil }
func startMariaDB() *server   { return nil }
func startPgBouncer() *server { return nil }

func need(t *testing.T, _ *server) *server {
	t.Helper()
	t.Skip("servers are started on unix only")
	return nil
}

func startReplica(t *testing.T, _ *server) *server {
	t.Helper()
	return need(t, nil)
}

func (*server) postgresAddress() string { return "" }
func (*server) mariaAddress() string    { return "" }
