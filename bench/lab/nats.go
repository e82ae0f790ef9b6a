package main

import (
	"context"
	"errors"
	"flag"
	"fmt"
	"path/filepath"
	"time"

	"github.com/nats-io/nats-server/v2/server"
)

// natsWithin bounds the time until a NATS server takes connections.
const natsWithin = 30 * time.Second

// runNATS runs a NATS server on 127.0.0.1 until ctx ends. It prints its URL once it takes
// connections. With --cluster it is one of several, which are processes of their own:
//
//	lab nats --data DIR --name nats-1 --port 4222 --monitor 8222 --cluster 6222 --routes nats://127.0.0.1:6222,nats://127.0.0.1:6223,...
func runNATS(ctx context.Context, args []string) error {
	o := natsOptions()
	f := flag.NewFlagSet("nats", flag.ContinueOnError)
	data := f.String("data", "", "directory for the streams")
	f.IntVar(&o.Port, "port", server.RANDOM_PORT, "port for clients; a free one if it is left out")
	f.IntVar(&o.HTTPPort, "monitor", 0, "port of the server's HTTP monitoring; 0 has none")
	f.StringVar(&o.ServerName, "name", "nats-1", "name of the server")
	cluster := f.Int("cluster", 0, "port for the other servers of its cluster; 0: there are none")
	routes := f.String("routes", "", "URLs of all servers of its cluster, with commas")
	f.BoolVar(&o.SyncAlways, "sync", false, "have each write on the disk before it is acknowledged, as what must survive power needs")
	if err := f.Parse(args); err != nil {
		return err
	}
	if *data == "" {
		return errors.New("want --data DIR")
	}
	o.StoreDir = filepath.Join(*data, o.ServerName)
	if *cluster > 0 {
		// Clients are not told of the others: they may have a way of their own to each.
		o.Cluster = server.ClusterOpts{Name: "bench", Host: "127.0.0.1", Port: *cluster, NoAdvertise: true}
		o.Routes = server.RoutesFromStr(*routes)
	}
	s, err := startNATS(o)
	if err != nil {
		return err
	}
	defer s.Shutdown()
	fmt.Println(s.ClientURL())
	<-ctx.Done()
	return nil
}

// natsOptions are those of a server with JetStream on 127.0.0.1.
func natsOptions() *server.Options {
	const anyStore = 1 << 40 // what streams may reserve is else three quarters of what the disk has free
	return &server.Options{Host: "127.0.0.1", HTTPHost: "127.0.0.1", Port: server.RANDOM_PORT, NoSigs: true, NoLog: true, JetStream: true, JetStreamMaxStore: anyStore}
}

// startNATS starts a server and waits until it takes connections.
func startNATS(o *server.Options) (*server.Server, error) {
	s, err := server.NewServer(o)
	if err != nil {
		return nil, err
	}
	s.Start()
	if !s.ReadyForConnections(natsWithin) {
		s.Shutdown()
		return nil, fmt.Errorf("the NATS server takes no connections within %v", natsWithin)
	}
	return s, nil
}
