// Package etcdserver runs real etcd nodes for tests, benchmarks and examples: each is a
// process of its own, which can be killed, stopped and started again.
//
// A node is the program itself, executed anew: etcd comes as a library, so nothing has to
// be installed. Main must therefore be the first thing that main or TestMain does:
//
//	func TestMain(m *testing.M) {
//		etcdserver.Main()
//		os.Exit(m.Run())
//	}
//
//	cluster, err := etcdserver.Start(ctx, 3, t.TempDir())
//	defer cluster.Stop()
//	client, err := clientv3.New(clientv3.Config{Endpoints: cluster.Endpoints()})
//
// Nodes serve on loopback, without TLS or users, and are set as etcd is by default: every
// write is synced. A node never outlives the program that has started it, however that ends.
package etcdserver
