//go:build unix

package servers

import (
	"fmt"
	"strconv"
	"strings"
)

// Redis starts Redis, which keeps nothing on disk unless settings say so: they are those
// of redis.conf, as "name=value".
func Redis(settings ...string) (*Server, error) {
	redis, err := find("redis-server", "redis-server")
	if err != nil {
		return nil, err
	}
	cli, err := find("redis-tools", "redis-cli")
	if err != nil {
		return nil, err
	}
	// Not TERM, which Redis refuses, and forgets, while it begins an append-only file,
	// as a replica does after each full copy. Nothing of the server is to be kept.
	s := &Server{signal: "KILL", address: func(port int) string { return fmt.Sprintf("redis://127.0.0.1:%d/0", port) }}
	return launch(s, []string{"redis"}, func() error {
		port := strconv.Itoa(s.port)
		s.command = []string{redis, "--port", port, "--bind", "127.0.0.1", "--dir", s.dir, "--save", ""}
		for _, setting := range settings {
			name, value, _ := strings.Cut(setting, "=")
			s.command = append(s.command, "--"+name, value)
		}
		s.ready = func() error { return s.run(cli, "-h", "127.0.0.1", "-p", port, "-e", "ping") }
		return nil
	})
}
