// Command certificates obtains a certificate on one of many machines. The other machines wait
// and load it from the shared storage. The program uses a private certificate authority; for
// Let's Encrypt use certmagic.NewACMEIssuer instead.
//
//	certificates -store postgres://db.example.com/app -folder /srv/certificates -name app.internal
package main

import (
	"context"
	"flag"
	"log"
	"os"
	"os/signal"
	"syscall"
	"time"

	"github.com/caddyserver/certmagic"
	"go.uber.org/zap"

	"github.com/holdfast-go/holdfast"
	"github.com/holdfast-go/holdfast/adapt"
	_ "github.com/holdfast-go/holdfast/pglock"
	_ "github.com/holdfast-go/holdfast/sqlitelock"
)

func main() {
	store := flag.String("store", "sqlite:locks.db", "URL of the store")
	ttl := flag.Duration("ttl", 10*time.Second, "how long a killed process keeps the lock")
	folder := flag.String("folder", "certificates", "where the certificates are, for all machines")
	name := flag.String("name", "app.internal", "of which a certificate is needed")
	flag.Parse()
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt, syscall.SIGTERM)
	err := run(ctx, *store, *folder, *name, *ttl)
	stop()
	if err != nil {
		log.Fatal(err)
	}
}

func run(ctx context.Context, store, folder, name string, ttl time.Duration) error {
	client, err := holdfast.Open(ctx, store, &holdfast.Options{TTL: ttl})
	if err != nil {
		return err
	}
	defer client.Close()
	locks := adapt.NewNames(client, &adapt.NamesOptions{Prefix: "tls/"})

	var config *certmagic.Config
	cache := certmagic.NewCache(certmagic.CacheOptions{
		GetConfigForCert: func(certmagic.Certificate) (*certmagic.Config, error) { return config, nil },
		Logger:           zap.NewNop(),
	})
	defer cache.Stop()
	config = certmagic.New(cache, certmagic.Config{
		Storage: storage{files{&certmagic.FileStorage{Path: folder}}, locks},
		Issuers: []certmagic.Issuer{issuer{locks}},
		Logger:  zap.NewNop(),
	})
	if err := config.ManageSync(ctx, []string{name}); err != nil {
		return err
	}
	log.Printf("ready, with a certificate of %s", name)
	<-ctx.Done() // a server would use config.TLSConfig() here
	return nil
}

// storage keeps its files in a folder and its locks in Holdfast's store.
type storage struct {
	files
	*adapt.Names
}

// files embeds its Storage one level deeper than storage embeds Names, so that the Lock and
// Unlock of Names hide the Storage's own.
type files struct{ certmagic.Storage }
