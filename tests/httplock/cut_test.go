package httplock_test

import (
	"context"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"testing"

	"github.com/holdfast-go/holdfast/driver"
	"github.com/holdfast-go/holdfast/driver/drivertest"
	"github.com/holdfast-go/holdfast/httplock"
	"github.com/holdfast-go/holdfast/memlock"
	"github.com/holdfast-go/holdfast/tests/ask"
	"github.com/holdfast-go/holdfast/tests/faults"
)

// shortConn ends as if its other side had closed it, after so many bytes.
type shortConn struct {
	net.Conn
	left int
}

func (c *shortConn) Read(p []byte) (int, error) {
	if c.left == 0 {
		return 0, io.EOF
	}
	n, err := c.Conn.Read(p[:min(len(p), c.left)])
	c.left -= n
	return n, err
}

// A list that is cut is an error, wherever that is, and shows nothing.
func TestListCut(t *testing.T) {
	const holds = 300
	store := memlock.New(nil)
	for i := range holds {
		ask.Granted(t, store, ask.Request(fmt.Sprint("r", i), "a"))
	}
	s := newSite(t, store, nil)
	// list counts what a list shows of which so many bytes arrive, and what it ends with.
	list := func(bytes int) (n int, err error) {
		transport := &http.Transport{DialContext: func(ctx context.Context, network, address string) (net.Conn, error) {
			c, err := new(net.Dialer).DialContext(ctx, network, address)
			return &shortConn{c, bytes}, err
		}}
		far, err := httplock.New(s.url, &httplock.Options{Transport: transport})
		if err != nil {
			t.Fatal(err)
		}
		defer far.Close()
		for _, err := range far.List(t.Context(), driver.Filter{}) {
			if err != nil {
				return n, err
			}
			n++
		}
		return n, nil
	}
	all := 0 // bytes, of the whole answer
	for low, high := 0, 1<<20; low < high; {
		all = (low + high) / 2
		if _, err := list(all); err != nil {
			low = all + 1
		} else {
			high = all
		}
		all = high
	}
	for _, short := range []int{1, 2, 5, 10, 20, 30, 50, 100, all / 4, all / 3, all / 2, all - 500, all - 100} {
		n, err := list(all - short)
		if n != 0 {
			t.Errorf("%d of %d bytes: shows %d holds", all-short, all, n)
		}
		faults.MustBeUnknown(t, err)
	}
	// By now the ages may have a digit more.
	if n, err := list(2 * all); n != holds || err != nil {
		t.Errorf("all bytes: %d holds, %v", n, err)
	}
}

// So is one that the server's store cannot finish.
func TestListFails(t *testing.T) {
	store := memlock.New(nil)
	for i := range 10 {
		ask.Granted(t, store, ask.Request(fmt.Sprint("r", i), "a"))
	}
	for name, of := range map[string]error{"no answer": nil, "damaged": driver.ErrDamaged} {
		t.Run(name, func(t *testing.T) {
			s := newSite(t, drivertest.NewFaultStore(lend(store), func(c drivertest.Call) drivertest.Fault {
				return drivertest.Fault{LoseReply: c.Op == drivertest.List, Err: of}
			}), nil)
			n, failed := 0, error(nil)
			for _, err := range dial(t, s.url).List(t.Context(), driver.Filter{}) {
				if err == nil {
					n++
				}
				failed = err
			}
			switch {
			case n != 0:
				t.Errorf("it shows %d holds", n)
			case of != nil && !errors.Is(failed, of):
				t.Errorf("error %v, want %v", failed, of)
			case of == nil:
				faults.MustBeUnknown(t, failed)
			}
		})
	}
}
