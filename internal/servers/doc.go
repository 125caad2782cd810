// Package servers starts the database servers that stores are tested against: PostgreSQL
// and a replica of it, MariaDB, PgBouncer and Redis.
//
// Each server has a free port of the loopback interface and a folder of its own. It ends,
// and its folder goes, when [Server.Stop] is called or when the process that started it
// ends, however and whenever it ends. The programs are those of the machine; a [MissingError] names the
// Debian package of one that is not installed.
//
// A server can be killed and started again on its data and its port, as one that crashed.
package servers
