//go:build !unix

package servers

// MissingError says that a program is not installed.
type MissingError struct{ Program, Package string }

func (e *MissingError) Error() string { return e.Program + ": servers are started on unix only" }

// Server is none: servers are started on unix only.
type Server struct{}

var errUnix error = &MissingError{Program: "server"}

func Postgres(...string) (*Server, error)             { return nil, errUnix }
func PostgresReplica(int, ...string) (*Server, error) { return nil, errUnix }
func PgBouncer(*Server) (*Server, error)              { return nil, errUnix }
func MariaDB() (*Server, error)                       { return nil, errUnix }
func Redis(...string) (*Server, error)                { return nil, errUnix }
func (*Server) Address() string                       { return "" }
func (*Server) DSN() string                           { return "" }
func (*Server) Port() int                             { return 0 }
func (*Server) Dir() string                           { return "" }
func (*Server) Log() string                           { return "" }
func (*Server) Kill() error                           { return errUnix }
func (*Server) Restart() error                        { return errUnix }
func (*Server) Promote() error                        { return errUnix }
func (*Server) Stop()                                 {}
