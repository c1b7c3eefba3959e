package sqlitelock

import (
	"errors"
	"time"
)

// How often a watched file is looked at. A look at one that did not change costs
// some 5 µs, but to wake up for it costs many times that (measured): so the less
// often, the longer nothing happened, and hardly ever where the system tells when
// something does.
const (
	minLook = 5 * time.Millisecond
	maxLook = 40 * time.Millisecond
	slower  = 32 // each look that finds nothing new makes the next later by this part
	share   = 20 // a file that changes all the time costs at most this part of the time
	// maxPause bounds that: a look takes long where others have the processor, too,
	// and who waits for a signal need not wait for many times that.
	maxPause = 250 * time.Millisecond
	// quiet is for how long to look for what a hint was about.
	quiet = time.Second
	// restLook is how often to look while hints are waited for.
	restLook = 2 * time.Second
	// retryAfter is how long to wait after the file could not be read.
	retryAfter = time.Second
)

// pace is when the goroutine looks next.
type pace struct {
	wait   time.Duration
	silent time.Duration // how long looks have found nothing
	rest   bool          // until there is a hint
}

// run looks at the file until nobody watches.
func (w *watcher) run() {
	for w.pace = (pace{wait: minLook}); w.pause() && !w.ends(); {
		start := time.Now()
		switch changed, err := w.poll(); {
		case err != nil && !busy(err):
			_ = w.hangUp() // what failed is tried anew, on a new connection
			w.pace = pace{wait: retryAfter}
		case changed:
			w.pace = pace{wait: min(max(minLook, share*time.Since(start)), maxPause)}
		default:
			w.slowDown()
		}
	}
}

// slowDown makes the next look later than the last one, which found nothing.
//
// A hint comes when the log is written to, and that is before the commit can be
// seen: it is only a reason to look closely for a while. So the watcher rests only
// when there was none while it looked in vain.
func (w *watcher) slowDown() {
	p := &w.pace
	p.wait = min(p.wait+p.wait/slower, maxLook)
	p.silent += p.wait
	if w.hints == nil || p.silent < quiet {
		return
	}
	hint, err := w.hints.take()
	p.silent = 0
	p.rest = !hint && err == nil
}

// pause waits until it is time to look. It returns false when the watcher is
// closed.
func (w *watcher) pause() bool {
	if w.pace.rest {
		w.store.reach(pointRest)
		hint, err := w.hints.wait(restLook, w.stop)
		if hint || err != nil {
			w.pace = pace{wait: minLook}
		}
	} else {
		timer := time.NewTimer(w.pace.wait)
		defer timer.Stop()
		select {
		case <-timer.C:
		case <-w.stop:
		}
	}
	select {
	case <-w.stop:
		return false
	default:
		return true
	}
}

// poll looks at the resources if the data changed since the last time.
func (w *watcher) poll() (changed bool, err error) {
	if w.conn == nil {
		if err := w.connect(); err != nil {
			return false, err
		}
	}
	version, err := w.conn.integer(dataVersionSQL)
	if err != nil || version == w.version {
		return false, err
	}
	if err := w.look(w.conn, w.watchedNames()); err != nil {
		return false, err
	}
	w.version = version
	return true, nil
}

// connect opens the connection, and with its first read the log, which SQLite
// then keeps. Without hints the file is looked at more often, that is all.
func (w *watcher) connect() error {
	c, err := w.dial()
	if err != nil {
		return err
	}
	if _, err := c.integer(dataVersionSQL); err != nil {
		return errors.Join(err, c.close())
	}
	w.conn, w.version = c, noVersion
	if h, err := w.store.sys.hints(w.store.file.path + "-wal"); err == nil {
		w.setHints(h)
	}
	return nil
}

func (w *watcher) setHints(h *hints) {
	w.mu.Lock()
	w.hints = h
	w.mu.Unlock()
}

func (w *watcher) hangUp() error {
	if w.conn == nil {
		return nil
	}
	c, h := w.conn, w.hints
	w.conn = nil
	w.setHints(nil)
	if h != nil {
		return errors.Join(c.close(), h.close())
	}
	return c.close()
}
