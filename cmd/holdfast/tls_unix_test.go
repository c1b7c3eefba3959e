package main

import (
	"crypto/ecdsa"
	"crypto/elliptic"
	"crypto/rand"
	"crypto/x509"
	"crypto/x509/pkix"
	"encoding/pem"
	"math/big"
	"net"
	"os"
	"path/filepath"
	"testing"
	"time"

	"github.com/rogpeppe/go-internal/testscript"
)

// TestServeTLS runs the scripts about TLS, with the certificates of an authority of the test:
// ca.pem, server.pem for 127.0.0.1, and billing.pem for a caller, each with its .key.
func TestServeTLS(t *testing.T) {
	p := scripts(t, func(dir string) string { return "sqlite://" + dir + "/locks.db" })
	p.Dir = "testdata/tls"
	setup := p.Setup
	p.Setup = func(e *testscript.Env) error {
		writeCertificates(t, e.WorkDir)
		return setup(e)
	}
	testscript.Run(t, p)
}

func writeCertificates(t *testing.T, dir string) {
	t.Helper()
	ca := &x509.Certificate{
		SerialNumber: big.NewInt(1), Subject: pkix.Name{CommonName: "test"}, IsCA: true, BasicConstraintsValid: true,
		NotBefore: time.Now().Add(-time.Hour), NotAfter: time.Now().Add(time.Hour), KeyUsage: x509.KeyUsageCertSign,
	}
	caKey := newKey(t)
	writeCertificate(t, filepath.Join(dir, "ca"), ca, ca, caKey, caKey)
	for i, c := range []*x509.Certificate{
		{Subject: pkix.Name{CommonName: "server"}, IPAddresses: []net.IP{net.IPv4(127, 0, 0, 1)}},
		{Subject: pkix.Name{CommonName: "billing"}, DNSNames: []string{"billing.example.com"}},
	} {
		c.SerialNumber, c.NotBefore, c.NotAfter = big.NewInt(int64(i)+2), ca.NotBefore, ca.NotAfter
		c.ExtKeyUsage = []x509.ExtKeyUsage{x509.ExtKeyUsageServerAuth, x509.ExtKeyUsageClientAuth}
		writeCertificate(t, filepath.Join(dir, c.Subject.CommonName), c, ca, newKey(t), caKey)
	}
}

func newKey(t *testing.T) *ecdsa.PrivateKey {
	t.Helper()
	key, err := ecdsa.GenerateKey(elliptic.P256(), rand.Reader)
	check(t, err)
	return key
}

func writeCertificate(t *testing.T, path string, c, parent *x509.Certificate, key, signer *ecdsa.PrivateKey) {
	t.Helper()
	der, err := x509.CreateCertificate(rand.Reader, c, parent, &key.PublicKey, signer)
	check(t, err)
	secret, err := x509.MarshalPKCS8PrivateKey(key)
	check(t, err)
	for end, block := range map[string]*pem.Block{".pem": {Type: "CERTIFICATE", Bytes: der}, ".key": {Type: "PRIVATE KEY", Bytes: secret}} {
		check(t, os.WriteFile(path+end, pem.EncodeToMemory(block), 0o600))
	}
}
