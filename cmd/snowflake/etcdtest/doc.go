// Package etcdtest runs the tool on etcd. It is a module of its own, so that the tool does
// not depend on a server of etcd.
package etcdtest
