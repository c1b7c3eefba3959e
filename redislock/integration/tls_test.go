package redislock_test

import (
	"context"
	"crypto/tls"
	"crypto/x509"
	"encoding/pem"
	"errors"
	"net"
	"net/http/httptest"
	"os"
	"path/filepath"
	"testing"
	"time"

	"github.com/redis/go-redis/v9"

	"github.com/holdfast-go/holdfast"
	"github.com/holdfast-go/holdfast/driver"
	"github.com/holdfast-go/holdfast/lab/engines"
	"github.com/holdfast-go/holdfast/redislock"
)

// secured starts a server, and returns its address for TLS and the certificates that it
// needs.
func secured(t *testing.T) (string, *x509.CertPool) {
	t.Helper()
	vouched := httptest.NewTLSServer(nil)
	defer vouched.Close()
	folder := t.TempDir()
	file := func(name, kind string, content []byte) string {
		path := filepath.Join(folder, name)
		if err := os.WriteFile(path, pem.EncodeToMemory(&pem.Block{Type: kind, Bytes: content}), 0o600); err != nil {
			t.Fatal(err)
		}
		return path
	}
	key, err := x509.MarshalPKCS8PrivateKey(vouched.TLS.Certificates[0].PrivateKey)
	if err != nil {
		t.Fatal(err)
	}
	certificate := file("certificate", "CERTIFICATE", vouched.Certificate().Raw)
	_, port, err := net.SplitHostPort(vouched.Listener.Addr().String())
	if err != nil {
		t.Fatal(err)
	}
	vouched.Close() // frees its port
	engines.NewRedis(t, "--tls-port", port, "--tls-auth-clients", "no", "--tls-ca-cert-file", certificate,
		"--tls-cert-file", certificate, "--tls-key-file", file("key", "PRIVATE KEY", key))
	roots := x509.NewCertPool()
	roots.AddCert(vouched.Certificate())
	return net.JoinHostPort("127.0.0.1", port), roots
}

func TestTLS(t *testing.T) {
	t.Parallel()
	address, roots := secured(t)
	opened, err := driver.Open(t.Context(), "rediss://"+address+"?skip_verify=true")
	if err != nil {
		t.Fatal(err)
	}
	client := connect(t, &redis.Options{Addr: address, TLSConfig: &tls.Config{RootCAs: roots, MinVersion: tls.VersionTLS12}})
	for what, s := range map[string]driver.Store{"by URL": opened, "by a client": redislock.New(client, nil)} {
		t.Cleanup(func() { closeAll(t, s) })
		locks := holdfast.New(s, nil)
		t.Cleanup(func() { closeAll(t, locks) })
		h, err := locks.Lock(t.Context(), what, nil)
		if err != nil {
			t.Fatalf("%s: %v", what, err)
		}
		if err := h.Unlock(t.Context()); err != nil {
			t.Errorf("%s: %v", what, err)
		}
	}
}

// A server with an untrusted certificate is not tried again and again.
func TestUnknownCertificate(t *testing.T) {
	t.Parallel()
	address, _ := secured(t)
	s, err := driver.Open(t.Context(), "rediss://"+address)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { closeAll(t, s) })
	locks := holdfast.New(s, nil)
	t.Cleanup(func() { closeAll(t, locks) })
	ctx, cancel := context.WithTimeout(t.Context(), time.Minute)
	defer cancel()
	if _, err := locks.Lock(ctx, "r", nil); !errors.Is(err, driver.ErrUnusable) {
		t.Errorf("%v, want ErrUnusable", err)
	}
}
