//go:build unix

package servers

import (
	"bufio"
	"errors"
	"fmt"
	"io"
	"net"
	"os"
	"os/exec"
	"os/user"
	"path/filepath"
	"strconv"
	"strings"
	"syscall"
	"time"
)

// patience is how long a server may take to answer after its start.
const patience = time.Minute

// MissingError says that a program is not installed.
type MissingError struct{ Program, Package string }

func (e *MissingError) Error() string {
	return fmt.Sprintf("%s is not installed: Debian package %s", e.Program, e.Package)
}

// Server is a server that was started. Its methods are for one goroutine at a time.
type Server struct {
	dir     string
	port    int
	as      *syscall.Credential
	command []string
	signal  string // that ends it in order, as kill(1) names it
	ready   func() error
	address func(port int) string

	keeper *exec.Cmd // of the server, while it runs
	life   io.Closer
	pid    int

	folder *exec.Cmd // removes the folder
	hold   *os.File  // shared by all that write into it
}

// Address is host and port.
func (s *Server) Address() string { return net.JoinHostPort("127.0.0.1", strconv.Itoa(s.port)) }

// Port is the server's port of the loopback interface.
func (s *Server) Port() int { return s.port }

// DSN is what a client of the server's kind is given to connect to it: a URL for pgx and
// go-redis, the driver's own form for go-sql-driver/mysql.
func (s *Server) DSN() string { return s.address(s.port) }

// Dir is the server's folder.
func (s *Server) Dir() string { return s.dir }

// Log is what the server has said so far.
func (s *Server) Log() string {
	said, _ := os.ReadFile(filepath.Join(s.dir, "log"))
	return string(said)
}

// folderScript removes the folder when nobody holds the other end of its standard input any
// more: this process, the keeper of the server and what prepares its data (descriptor 3).
const folderScript = `cat >/dev/null; rm -rf "$0"`

// keeperScript starts the server, tells its process number, waits for the end of its own
// standard input - which comes when the process at the other end of the pipe ends, however
// it ends - and then ends the server.
const keeperScript = `signal=$1; shift; "$@" >>"$0/log" 2>&1 </dev/null 3>&- & server=$!; echo $server; cat >/dev/null; ` +
	`kill -$signal $server; wait $server`

// runScript runs a program to its end, and kills it, with all that it has started, when
// its own standard input ends before.
const runScript = `exec 4<&0; "$@" 4<&- & program=$!; { cat <&4; kill -s KILL -- -$$; } >/dev/null 2>&1 & wait $program`

// keep starts what removes the folder.
func (s *Server) keep() error {
	end, hold, err := os.Pipe()
	if err != nil {
		return err
	}
	cmd := exec.Command("sh", "-c", folderScript, s.dir)
	cmd.Stdin, cmd.SysProcAttr = end, &syscall.SysProcAttr{Credential: s.as, Setpgid: true}
	if err := errors.Join(cmd.Start(), end.Close()); err != nil {
		return errors.Join(err, hold.Close())
	}
	s.folder, s.hold = cmd, hold
	return nil
}

// start starts the server's program and returns when it answers.
func (s *Server) start() error {
	// The log is the keeper's to write: it may run as another user.
	cmd := exec.Command("sh", append([]string{"-c", keeperScript, s.dir, s.signal}, s.command...)...)
	cmd.Dir, cmd.SysProcAttr = s.dir, &syscall.SysProcAttr{Credential: s.as, Setpgid: true}
	cmd.ExtraFiles = []*os.File{s.hold}
	life, err := cmd.StdinPipe()
	if err != nil {
		return err
	}
	told, err := cmd.StdoutPipe()
	if err != nil {
		return err
	}
	if err := cmd.Start(); err != nil {
		return err
	}
	s.keeper, s.life = cmd, life
	line, err := bufio.NewReader(told).ReadString('\n')
	if err == nil {
		s.pid, err = strconv.Atoi(strings.TrimSpace(line))
	}
	if err != nil {
		return fmt.Errorf("%s: no process number: %w", s.command[0], err)
	}
	for deadline := time.Now().Add(patience); ; time.Sleep(20 * time.Millisecond) {
		if err = s.ready(); err == nil {
			return nil
		}
		if time.Now().After(deadline) {
			return fmt.Errorf("%s does not answer: %w: %s", s.command[0], err, s.Log())
		}
		if syscall.Kill(s.pid, 0) != nil { // It has ended by itself.
			return fmt.Errorf("%s ended: %s", s.command[0], s.Log())
		}
	}
}

// Kill ends the server as a crash does (SIGKILL) and keeps its data.
func (s *Server) Kill() error {
	if s.keeper == nil {
		return nil
	}
	// With its keeper, which is in the same group.
	err := syscall.Kill(-s.keeper.Process.Pid, syscall.SIGKILL)
	_ = s.life.Close()
	_ = s.keeper.Wait()
	s.keeper = nil
	return err
}

// Restart starts a killed server on its data and its port. It returns when it answers.
func (s *Server) Restart() error {
	// What the killed left behind may still be in use for a moment by children of it that
	// are about to notice.
	for deadline := time.Now().Add(patience); ; time.Sleep(100 * time.Millisecond) {
		err := s.start()
		if err == nil || time.Now().After(deadline) {
			return err
		}
		_ = s.Kill()
	}
}

// Stop ends the server and removes its folder.
func (s *Server) Stop() {
	if s.keeper != nil {
		_ = s.life.Close()
		_ = s.keeper.Wait()
		s.keeper = nil
	}
	if s.folder != nil {
		_ = s.hold.Close()
		_ = s.folder.Wait()
		s.folder = nil
	}
	_ = os.RemoveAll(s.dir)
}

// launch gives a server a folder and a port, prepares its data and starts it. What failed
// is cleaned up.
func launch(s *Server, accounts []string, prepare func() error) (_ *Server, err error) {
	s.as = account(accounts...)
	if s.dir, err = os.MkdirTemp("", "server"); err != nil {
		return nil, err
	}
	defer func() {
		if err != nil {
			_ = s.Kill()
			s.Stop()
		}
	}()
	if s.as != nil {
		if err := os.Chown(s.dir, int(s.as.Uid), int(s.as.Gid)); err != nil {
			return nil, err
		}
	}
	if err := s.keep(); err != nil {
		return nil, err
	}
	if s.port, err = freePort(); err != nil {
		return nil, err
	}
	if s.ready == nil {
		s.ready = s.listens
	}
	if err := prepare(); err != nil {
		return nil, err
	}
	return s, s.start()
}

// run runs a program to its end, as the server's account. It does not outlive this process.
func (s *Server) run(name string, args ...string) error {
	cmd := exec.Command("sh", append([]string{"-c", runScript, s.dir, name}, args...)...)
	cmd.Dir, cmd.SysProcAttr = s.dir, &syscall.SysProcAttr{Credential: s.as, Setpgid: true}
	cmd.ExtraFiles = []*os.File{s.hold}
	if _, err := cmd.StdinPipe(); err != nil { // Wait closes it.
		return err
	}
	if out, err := cmd.CombinedOutput(); err != nil {
		return fmt.Errorf("%s: %w: %s", name, err, out)
	}
	return nil
}

// listens says whether the port is open.
func (s *Server) listens() error {
	conn, err := net.DialTimeout("tcp", s.Address(), time.Second)
	if err != nil {
		return err
	}
	return conn.Close()
}

// find finds a program in PATH or in one of the folders.
func find(debian, name string, folders ...string) (string, error) {
	if path, err := exec.LookPath(name); err == nil {
		return path, nil
	}
	for _, folder := range folders {
		found, _ := filepath.Glob(filepath.Join(folder, name))
		if len(found) > 0 {
			return found[len(found)-1], nil
		}
	}
	return "", &MissingError{Program: name, Package: debian}
}

// account is whom a server runs as: servers refuse to be root. nil: as this process.
func account(names ...string) *syscall.Credential {
	if os.Getuid() != 0 {
		return nil
	}
	for _, name := range append(names, "nobody") {
		u, err := user.Lookup(name)
		if err != nil {
			continue
		}
		uid, err := strconv.ParseUint(u.Uid, 10, 32)
		gid, err2 := strconv.ParseUint(u.Gid, 10, 32)
		if errors.Join(err, err2) == nil {
			return &syscall.Credential{Uid: uint32(uid), Gid: uint32(gid)}
		}
	}
	return nil
}

func freePort() (int, error) {
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		return 0, err
	}
	addr, ok := l.Addr().(*net.TCPAddr)
	if !ok {
		return 0, errors.Join(errors.New("no TCP address"), l.Close())
	}
	return addr.Port, l.Close()
}
