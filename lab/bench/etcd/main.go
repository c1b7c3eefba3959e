// Command etcd runs one node of etcd, with which the benchmarks compare holdfast serve. The
// first argument is an empty folder for the data. An optional second and third argument are a
// certificate and its key in PEM; with them etcd also listens with TLS. The command prints the
// URLs for clients on one line, and ends when its standard input ends.
package main

import (
	"context"
	"errors"
	"fmt"
	"io"
	"net"
	"net/url"
	"os"
	"time"

	"go.etcd.io/etcd/server/v3/embed"
)

func main() {
	if err := serve(os.Args[1:]); err != nil {
		fmt.Fprintln(os.Stderr, "etcd:", err)
		os.Exit(1)
	}
}

// serve runs etcd with its default settings, so that each change is on the disk before it is
// answered. Only its log is left out, because it reports its regular end as an error.
func serve(args []string) error {
	if len(args) != 1 && len(args) != 3 {
		return errors.New("it needs a folder, and for TLS a certificate and its key")
	}
	schemes := []string{"http"}
	c := embed.NewConfig()
	c.Dir, c.LogLevel = args[0], "panic"
	if len(args) == 3 {
		schemes = append(schemes, "https")
		c.ClientTLSInfo.CertFile, c.ClientTLSInfo.KeyFile = args[1], args[2]
	}
	var clients []url.URL
	for _, scheme := range schemes {
		u, err := anyPort(scheme)
		if err != nil {
			return err
		}
		clients = append(clients, u)
	}
	peers, err := anyPort("http")
	if err != nil {
		return err
	}
	c.ListenClientUrls, c.AdvertiseClientUrls = clients, clients
	c.ListenPeerUrls, c.AdvertisePeerUrls = []url.URL{peers}, []url.URL{peers}
	c.InitialCluster = c.InitialClusterFromName(c.Name)
	e, err := embed.StartEtcd(c)
	if err != nil {
		return err
	}
	defer e.Close()
	select {
	case <-e.Server.ReadyNotify():
	case <-time.After(time.Minute):
		return errors.New("it was not ready within a minute")
	}
	for _, u := range clients {
		fmt.Print(u.String(), " ")
	}
	fmt.Println()
	_, err = io.Copy(io.Discard, os.Stdin)
	return err
}

// anyPort returns a URL with a free port of the loopback interface: etcd cannot choose its
// ports itself.
func anyPort(scheme string) (url.URL, error) {
	l, err := new(net.ListenConfig).Listen(context.Background(), "tcp", "127.0.0.1:0")
	if err != nil {
		return url.URL{}, err
	}
	return url.URL{Scheme: scheme, Host: l.Addr().String()}, l.Close()
}
