//go:build unix

package adapters_test

import (
	"context"
	"crypto/ecdsa"
	"crypto/elliptic"
	"crypto/rand"
	"crypto/x509"
	"crypto/x509/pkix"
	"encoding/pem"
	"errors"
	"math/big"
	"testing"
	"time"

	"github.com/caddyserver/certmagic"
	"go.uber.org/zap"

	"github.com/holdfast-go/holdfast"
	"github.com/holdfast-go/holdfast/adapt"
)

var (
	_ certmagic.Locker            = (*adapt.Names)(nil)
	_ certmagic.TryLocker         = (*adapt.Names)(nil)
	_ certmagic.LockLeaseRenewer  = (*adapt.Names)(nil)
	_ certmagic.Storage           = storage{}
	_ certmagic.TryLocker         = storage{}
	_ certmagic.LockLeaseRenewer  = storage{}
	_ certmagic.Issuer            = issuer{}
	_ interface{ Unwrap() error } = (*holdfast.LostError)(nil)
)

// storage is a certmagic.Storage with its files in files and its locks in Holdfast's store.
type storage struct {
	files
	*adapt.Names
}

// files hides the locks of a Storage: their methods are one embedding level deeper than the
// methods of Names.
type files struct{ certmagic.Storage }

// issuer is a certificate authority that works until the lock of the certificate is lost.
type issuer struct {
	locks *adapt.Names
	issue func(ctx context.Context, csr *x509.CertificateRequest) (*certmagic.IssuedCertificate, error)
}

func (issuer) IssuerKey() string { return "test" }

func (i issuer) Issue(ctx context.Context, csr *x509.CertificateRequest) (*certmagic.IssuedCertificate, error) {
	lock := "issue_cert_" + csr.DNSNames[0]
	ctx, cancel := i.locks.Bind(ctx, lock)
	defer cancel()
	certificate, err := i.issue(ctx, csr)
	if err != nil {
		return nil, err
	}
	last, cancel := i.locks.Bind(ctx, lock) // checks the deadline too, in case the process was stopped
	defer cancel()
	if last.Err() != nil {
		return nil, context.Cause(last)
	}
	return certificate, nil
}

// magic returns a configuration as each machine has one.
func magic(folder string, locks *adapt.Names, store certmagic.Storage, issue func(ctx context.Context, csr *x509.CertificateRequest) (*certmagic.IssuedCertificate, error)) (cfg *certmagic.Config, stop func()) {
	cache := certmagic.NewCache(certmagic.CacheOptions{
		GetConfigForCert: func(certmagic.Certificate) (*certmagic.Config, error) { return cfg, nil },
		Logger:           zap.NewNop(),
	})
	if store == nil {
		store = storage{files{&certmagic.FileStorage{Path: folder}}, locks}
	}
	cfg = certmagic.New(cache, certmagic.Config{Storage: store, Issuers: []certmagic.Issuer{issuer{locks, issue}}, Logger: zap.NewNop()})
	return cfg, cache.Stop
}

func certmagicObtain(ctx context.Context, w *worker) error {
	locks := adapt.NewNames(w.client, &adapt.NamesOptions{Prefix: "tls/"})
	cfg, stop := magic(w.Data, locks, nil, func(ctx context.Context, _ *x509.CertificateRequest) (*certmagic.IssuedCertificate, error) {
		return nil, w.work(ctx)
	})
	defer stop()
	for ctx.Err() == nil {
		if err := cfg.ObtainCertSync(ctx, "example.com"); err == nil {
			return errors.New("a certificate came from nowhere")
		}
	}
	return nil
}

// sign returns a certificate for the request.
func sign(csr *x509.CertificateRequest) (*certmagic.IssuedCertificate, error) {
	key, err := ecdsa.GenerateKey(elliptic.P256(), rand.Reader)
	if err != nil {
		return nil, err
	}
	text := &x509.Certificate{
		SerialNumber: big.NewInt(1), Subject: pkix.Name{CommonName: "test"}, DNSNames: csr.DNSNames,
		NotBefore: time.Now().Add(-time.Hour), NotAfter: time.Now().Add(90 * 24 * time.Hour),
	}
	der, err := x509.CreateCertificate(rand.Reader, text, text, csr.PublicKey, key)
	if err != nil {
		return nil, err
	}
	return &certmagic.IssuedCertificate{Certificate: pem.EncodeToMemory(&pem.Block{Type: "CERTIFICATE", Bytes: der})}, nil
}

// One of two machines obtains the certificate, and the other one loads it.
func TestCertmagicObtainsOnce(t *testing.T) {
	url, folder := local(t), t.TempDir()
	operator := open(t, url)
	begun, finish := make(chan struct{}), make(chan struct{})
	obtained := make(chan error, 2)
	for range cap(obtained) {
		locks := adapt.NewNames(open(t, url), nil)
		cfg, stop := magic(folder, locks, nil, func(_ context.Context, csr *x509.CertificateRequest) (*certmagic.IssuedCertificate, error) {
			close(begun) // panics if it is called twice
			<-finish
			return sign(csr)
		})
		t.Cleanup(stop)
		go func() { obtained <- cfg.ObtainCertAsync(t.Context(), "example.com") }()
	}
	<-begun
	untilWaiting(t, operator, "issue_cert_example.com")
	close(finish)
	wantError(t, <-obtained, nil)
	wantError(t, <-obtained, nil)
}

// losing is a Storage whose lock is released by force as soon as it is acquired.
type losing struct {
	storage
	seize   func()
	renewed chan error
}

func (l losing) Lock(ctx context.Context, name string) error {
	err := l.storage.Lock(ctx, name)
	l.seize()
	return err
}

func (l losing) RenewLockLease(ctx context.Context, name string, d time.Duration) error {
	err := l.storage.RenewLockLease(ctx, name, d)
	l.renewed <- err
	return err
}

// An obtain that has lost its lock sends no request to the certificate authority.
func TestCertmagicAbortsWithoutItsLock(t *testing.T) {
	url := local(t)
	operator := open(t, url)
	locks := adapt.NewNames(open(t, url), nil)
	l := losing{
		storage: storage{files{&certmagic.FileStorage{Path: t.TempDir()}}, locks},
		seize:   func() { seize(t.Context(), t, operator, "issue_cert_example.com") },
		renewed: make(chan error, 1),
	}
	cfg, stop := magic("", locks, l, func(context.Context, *x509.CertificateRequest) (*certmagic.IssuedCertificate, error) {
		t.Error("it asks for a certificate without the lock")
		return nil, errors.New("no")
	})
	defer stop()
	ctx, cancel := context.WithCancel(t.Context())
	defer cancel()
	ended := make(chan error, 1)
	go func() { ended <- cfg.ObtainCertAsync(ctx, "example.com") }()
	wantError(t, <-l.renewed, holdfast.ErrForced)
	cancel() // otherwise certmagic tries again in a minute
	wantError(t, <-ended, context.Canceled)
}

// If the lock is lost while the certificate authority works, its ctx and the obtain end.
func TestCertmagicLosesItsLock(t *testing.T) {
	url := local(t)
	operator := open(t, url)
	locks := adapt.NewNames(open(t, url), nil)
	cfg, stop := magic(t.TempDir(), locks, nil, func(ctx context.Context, _ *x509.CertificateRequest) (*certmagic.IssuedCertificate, error) {
		seize(ctx, t, operator, "issue_cert_example.com")
		<-ctx.Done()
		wantError(t, context.Cause(ctx), holdfast.ErrForced)
		return nil, ctx.Err()
	})
	defer stop()
	wantError(t, cfg.ObtainCertAsync(t.Context(), "example.com"), context.Canceled)
}
