package main

import (
	"context"
	"crypto/ecdsa"
	"crypto/elliptic"
	"crypto/rand"
	"crypto/x509"
	"crypto/x509/pkix"
	"encoding/pem"
	"log"
	"math/big"
	"time"

	"github.com/caddyserver/certmagic"

	"github.com/holdfast-go/holdfast/adapt"
)

// issuer is a private certificate authority, which takes two seconds.
type issuer struct{ locks *adapt.Names }

// IssuerKey returns the name of the issuer in the storage.
func (issuer) IssuerKey() string { return "internal" }

// Issue makes a certificate. It stops if the lock of the certificate is lost.
func (i issuer) Issue(ctx context.Context, csr *x509.CertificateRequest) (*certmagic.IssuedCertificate, error) {
	lock := "issue_cert_" + csr.DNSNames[0]
	ctx, cancel := i.locks.Bind(ctx, lock)
	defer cancel()
	log.Printf("asking for a certificate of %s", csr.DNSNames[0])
	select {
	case <-time.After(2 * time.Second):
	case <-ctx.Done():
		return nil, context.Cause(ctx)
	}
	// A real authority keeps its key.
	key, err := ecdsa.GenerateKey(elliptic.P256(), rand.Reader)
	if err != nil {
		return nil, err
	}
	text := &x509.Certificate{
		SerialNumber: big.NewInt(time.Now().UnixNano()), Subject: pkix.Name{CommonName: "internal"}, DNSNames: csr.DNSNames,
		NotBefore: time.Now().Add(-time.Minute), NotAfter: time.Now().Add(90 * 24 * time.Hour),
	}
	der, err := x509.CreateCertificate(rand.Reader, text, text, csr.PublicKey, key)
	if err != nil {
		return nil, err
	}
	// When a stopped process continues, ctx ends a moment late. Bind looks at the clock.
	last, cancel := i.locks.Bind(ctx, lock)
	defer cancel()
	if last.Err() != nil {
		return nil, context.Cause(last)
	}
	return &certmagic.IssuedCertificate{Certificate: pem.EncodeToMemory(&pem.Block{Type: "CERTIFICATE", Bytes: der})}, nil
}
