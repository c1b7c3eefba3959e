package explore

import (
	"cmp"
	"fmt"
	"slices"
	"time"

	"github.com/holdfast-go/holdfast/driver"
	"github.com/holdfast-go/holdfast/driver/model"
)

// state is everything that decides what can happen next. States are comparable: unused fields
// are zero, and messages are sorted.
type state struct {
	now     int8 // in ms
	record  record
	clients [2]client
	net     [4]message
	doubled int8  // how many messages have arrived twice
	token   int16 // the last token that was granted
}

// record is a model.Record with at most one hold, an exclusive one.
type record struct {
	token, touched int16
	hold           hold
}

// hold is the hold in the record.
type hold struct {
	owner, id   int8 // id 0: no hold
	token       int16
	end         int8
	known       bool // its Client has received the grant
	unavoidable bool // it may be an orphan
}

// client is the knowledge of a Client about one resource.
type client struct {
	phase    phase
	id       int8 // the Client's nth hold ID; 0: none yet
	first    int8 // when its first attempt was sent
	tries    int8 // attempts with this hold ID
	unsure   int8 // attempts without an answer
	waiting  bool // for the answer to the last attempt
	deadline int8
	token    int16
	stray    int8 // until when an attempt without an answer may still arrive; 0: no such attempt
	renewals int8 // sent so far
	orphans  [3]orphan
}

// orphan is an abandoned hold ID that the cleaner still has to release.
type orphan struct {
	id, until int8
	single    bool
}

// phase is what a Client does at the moment.
type phase int8

const (
	idle phase = iota
	asking
	holding
)

// kind is the kind of a message.
type kind int8

const (
	none kind = iota
	acquire
	renew
	release
)

// message is a request, or its answer. A lost message stays in flight forever.
type message struct {
	kind     kind
	answer   bool
	from     int8 // the Client
	id       int8 // hold ID
	any      bool // a release of every hold of the lock ID
	attempt  int8
	sent     int8
	ttl      int8
	token    int16
	ok       bool // granted, renewed or found
	cleaning bool // a release that the cleaner sent
	last     bool // sent when its orphan could no longer arrive
	copy     bool // a message that has arrived before
}

func (m message) String() string {
	name := [...]string{acquire: "acquire", renew: "renew", release: "release"}[m.kind]
	s := fmt.Sprintf("%s of %c%d", name, 'A'+m.from, m.id)
	switch {
	case m.any:
		s = fmt.Sprintf("release of whatever %c holds", 'A'+m.from)
	case m.cleaning:
		s += " for clean-up"
	case m.kind == acquire:
		s += fmt.Sprintf(", attempt %d", m.attempt)
	case m.kind == renew:
		s += fmt.Sprintf(" for %d ms", m.ttl)
	}
	if !m.answer {
		return s
	}
	verdict := map[kind][2]string{acquire: {"held", "granted"}, renew: {"lost", "renewed"}, release: {"not there", "released"}}[m.kind]
	if m.ok {
		return s + ": " + verdict[1]
	}
	return s + ": " + verdict[0]
}

// order gives equal states the same representation.
func (s *state) order() {
	slices.SortFunc(s.net[:], func(a, b message) int {
		return cmp.Or(
			cmp.Compare(b.kind, a.kind), cmp.Compare(a.from, b.from), cmp.Compare(a.id, b.id),
			cmp.Compare(bit(a.answer), bit(b.answer)), cmp.Compare(a.attempt, b.attempt), cmp.Compare(a.sent, b.sent),
			cmp.Compare(a.ttl, b.ttl), cmp.Compare(a.token, b.token), cmp.Compare(bit(a.ok), bit(b.ok)),
			cmp.Compare(bit(a.cleaning), bit(b.cleaning)), cmp.Compare(bit(a.last), bit(b.last)), cmp.Compare(bit(a.copy), bit(b.copy)),
		)
	})
	for i := range s.clients {
		slices.SortFunc(s.clients[i].orphans[:], func(a, b orphan) int { return cmp.Compare(b.id, a.id) })
	}
}

func bit(b bool) int {
	if b {
		return 1
	}
	return 0
}

// send puts a message in flight, and reports whether there is room for it.
func (s *state) send(m message) bool {
	for i := range s.net {
		if s.net[i].kind == none {
			s.net[i] = m
			return true
		}
	}
	return false
}

// The functions below convert a record to a model.Record and back. Times here are milliseconds,
// except touched; a model.Time counts microseconds.

func at(ms int8) model.Time { return model.Time(ms) * 1000 }

func lockID(owner int8) string { return string(rune('A' + owner)) }

func holdID(owner, id int8) driver.HoldID { return driver.HoldID{byte(owner) + 1, byte(id)} }

func (r record) model() model.Record {
	m := model.Record{Resource: "r", Token: uint64(r.token), Touched: model.Time(r.touched)}
	if h := r.hold; h.id != 0 {
		m.Holds = []model.Hold{{
			LockID: lockID(h.owner), HoldID: holdID(h.owner, h.id), Token: uint64(h.token), End: at(h.end),
		}}
	}
	return m
}

// taken returns r with the values of m that can make a difference later.
func (r record) taken(m model.Record) record {
	next := record{token: int16(m.Token), touched: int16(m.Touched)}
	if len(m.Holds) > 1 {
		panic("two exclusive holds in a record")
	}
	for _, h := range m.Holds {
		next.hold = hold{
			owner: int8(h.HoldID[0]) - 1, id: int8(h.HoldID[1]), token: int16(h.Token), end: int8(h.End / 1000),
		}
		if next.hold.token == r.hold.token {
			next.hold.known, next.hold.unavoidable = r.hold.known, r.hold.unavoidable
		}
	}
	return next
}

func ms(n int8) time.Duration { return time.Duration(n) * time.Millisecond }
