package etcdserver

import (
	"encoding/json"
	"fmt"
	"io"
	"net/url"
	"os"

	"go.etcd.io/etcd/server/v3/embed"
)

// nodeVariable is set in the environment of a process that is to be a node.
const nodeVariable = "SNOWFLAKE_ETCD_NODE"

// What a node says to the process that has started it, a line each.
const (
	saysListening = "listening" // the ports are its own
	saysReady     = "ready"     // it has found a majority, and serves
)

// settings is what a node is told.
type settings struct {
	Name, Data, Log string
	Client, Peer    string // host:port
	Peers           string // name=URL of all nodes, separated by commas
}

// Main makes the process a node, and does not return, if Start has executed it to be one.
// Else it returns at once.
func Main() {
	text, isNode := os.LookupEnv(nodeVariable)
	if !isNode {
		return
	}
	if err := serve(text); err != nil {
		fmt.Println(err)
		os.Exit(1)
	}
	os.Exit(0)
}

// serve runs a node until standard input ends, which it does with the process that has
// started it at the latest.
func serve(text string) error {
	var s settings
	if err := json.Unmarshal([]byte(text), &s); err != nil {
		return fmt.Errorf("%s: %w", nodeVariable, err)
	}
	cfg := embed.NewConfig()
	cfg.Name, cfg.Dir, cfg.LogOutputs = s.Name, s.Data, []string{s.Log}
	client, peer := []url.URL{{Scheme: "http", Host: s.Client}}, []url.URL{{Scheme: "http", Host: s.Peer}}
	cfg.ListenClientUrls, cfg.AdvertiseClientUrls = client, client
	cfg.ListenPeerUrls, cfg.AdvertisePeerUrls = peer, peer
	cfg.InitialCluster, cfg.InitialClusterToken = s.Peers, s.Peers
	etcd, err := embed.StartEtcd(cfg)
	if err != nil {
		return err
	}
	fmt.Println(saysListening)
	ended := make(chan struct{})
	go func() {
		_, _ = io.Copy(io.Discard, os.Stdin)
		close(ended)
	}()
	ready := etcd.Server.ReadyNotify()
	for {
		select {
		case <-ended: // what was acknowledged is on the disk: there is nothing to tidy up
			return nil
		case err := <-etcd.Err():
			return err
		case <-ready:
			ready = nil
			fmt.Println(saysReady)
		}
	}
}
