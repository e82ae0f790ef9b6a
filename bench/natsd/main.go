// Command natsd runs a NATS server, or a cluster of several, on 127.0.0.1 for the programs of bench. It writes the URL of its servers to
// standard output once they take connections, and runs until it is ended.
//
//	natsd --data DIR [--servers 3] [--port 4222] [--sync]
//	natsd --data DIR --name nats-1 --port 4222 --monitor 8222 --cluster 6222 --routes nats://127.0.0.1:6222,nats://127.0.0.1:6223,...
//
// The second form runs one server of a cluster whose others are processes of their own.
package main

import (
	"errors"
	"flag"
	"fmt"
	"net"
	"net/url"
	"os"
	"os/signal"
	"path/filepath"
	"strings"
	"syscall"
	"time"

	"github.com/nats-io/nats-server/v2/server"
)

func main() {
	if err := run(os.Args[1:]); err != nil {
		fmt.Fprintln(os.Stderr, "natsd:", err)
		os.Exit(1)
	}
}

func run(args []string) error {
	f := flag.NewFlagSet("natsd", flag.ContinueOnError)
	data := f.String("data", "", "directory for the streams")
	n := f.Int("servers", 1, "how many servers")
	port := f.Int("port", server.RANDOM_PORT, "port of the first server, the others have the next ones; a free one each if it is left out")
	monitor := f.Int("monitor", 0, "port of the server's HTTP monitoring; 0 has none")
	name := f.String("name", "nats-1", "name of the server, if it is one of several processes")
	cluster := f.Int("cluster", 0, "port for the other servers of its cluster; 0: there are none")
	routes := f.String("routes", "", "URLs of all servers of its cluster, with commas")
	sync := f.Bool("sync", false, "have each write on the disk before it is acknowledged, as what must survive power needs")
	if err := f.Parse(args); err != nil {
		return err
	}
	if *data == "" || *n < 1 {
		return errors.New("want --data DIR, and at least one server")
	}
	var all []*server.Server
	var err error
	if *cluster == 0 && *n > 1 {
		all, err = start(*data, *n, *port, *sync)
	} else {
		o := options(*name, *data, *port)
		o.SyncAlways = *sync
		o.HTTPHost, o.HTTPPort = "127.0.0.1", *monitor
		if *cluster > 0 {
			join(o, *cluster, server.RoutesFromStr(*routes))
		}
		all, err = begin([]*server.Options{o}, func(all []*server.Server) bool { return all[0].ReadyForConnections(time.Second) })
	}
	for _, s := range all {
		defer s.Shutdown()
	}
	if err != nil {
		return err
	}
	var urls []string
	for _, s := range all {
		urls = append(urls, s.ClientURL())
	}
	fmt.Println(strings.Join(urls, ","))
	ended := make(chan os.Signal, 1)
	signal.Notify(ended, syscall.SIGINT, syscall.SIGTERM)
	<-ended
	return nil
}

// options are those of one server.
func options(name, data string, port int) *server.Options {
	const anyStore = 1 << 40 // what streams may reserve is else three quarters of what the disk has free
	return &server.Options{
		ServerName: name, Host: "127.0.0.1", Port: port, NoSigs: true, NoLog: true,
		JetStream: true, JetStreamMaxStore: anyStore, StoreDir: filepath.Join(data, name),
	}
}

// join makes a server one of a cluster. It does not tell clients of the others, who may have a way of their own to each.
func join(o *server.Options, port int, routes []*url.URL) {
	o.Cluster, o.Routes = server.ClusterOpts{Name: "bench", Host: "127.0.0.1", Port: port, NoAdvertise: true}, routes
}

// start starts n servers of a cluster and waits until they can keep streams.
func start(data string, n, port int, sync bool) ([]*server.Server, error) {
	routes := make([]*url.URL, n)
	ports := make([]int, n)
	for i := range n {
		l, err := net.Listen("tcp", "127.0.0.1:0")
		if err != nil {
			return nil, err
		}
		defer l.Close()
		ports[i] = l.Addr().(*net.TCPAddr).Port
		routes[i] = &url.URL{Scheme: "nats", Host: l.Addr().String()}
		if err := l.Close(); err != nil {
			return nil, err
		}
	}
	var each []*server.Options
	for i := range n {
		o := options(fmt.Sprintf("nats-%d", i+1), data, port)
		o.SyncAlways = sync
		if port > 0 {
			o.Port = port + i
		}
		join(o, ports[i], routes)
		each = append(each, o)
	}
	return begin(each, ready)
}

// begin starts servers and waits until they are ready.
func begin(each []*server.Options, ready func([]*server.Server) bool) (all []*server.Server, err error) {
	for _, o := range each {
		s, err := server.NewServer(o)
		if err != nil {
			return all, err
		}
		s.Start()
		all = append(all, s)
	}
	for end := time.Now().Add(30 * time.Second); time.Now().Before(end); time.Sleep(20 * time.Millisecond) {
		if ready(all) {
			return all, nil
		}
	}
	return all, errors.New("the servers are not ready within 30 s")
}

func ready(all []*server.Server) bool {
	leader := false
	for _, s := range all {
		if !s.ReadyForConnections(time.Second) {
			return false
		}
		leader = leader || s.JetStreamIsLeader() && len(s.JetStreamClusterPeers()) == len(all)
	}
	return leader
}
