package etcdserver

import (
	"errors"
	"fmt"
	"math/rand/v2"
	"net"
)

// Ports are chosen below those that systems give to outgoing connections, from 32768 or
// 49152 on: a node that is killed would else find, when it is started again, that one of
// these has taken its port.
const firstPort, lastPort = 20000, 32000

// freePorts returns the addresses of so many ports of loopback that are free now. Nothing
// keeps them free until they are used.
func freePorts(count int) (addresses []string, err error) {
	for tries := 0; len(addresses) < count; tries++ {
		if tries == 1000 {
			return nil, fmt.Errorf("etcdserver: no %d free ports from %d to %d: %w", count, firstPort, lastPort, err)
		}
		var taken net.Listener
		taken, err = net.Listen("tcp", fmt.Sprintf("127.0.0.1:%d", firstPort+rand.IntN(lastPort-firstPort+1)))
		if err != nil {
			continue
		}
		defer func() { err = errors.Join(err, taken.Close()) }() // after all: no port comes twice
		addresses = append(addresses, taken.Addr().String())
	}
	return addresses, nil
}
