// Package mongodoc keeps locks in MongoDB collections that programs without
// Holdfast lock in already, in documents of their layout, so that old and new
// programs exclude one another on one collection. There are three layouts:
//
//	constructor  document                                             held
//	NewTTL       {_id: name, lockedAt: date}                          while the document exists
//	NewFlag      {_id: name, locked: true or false, lockedAt: date}   while locked, and lockedAt not too old
//	NewValue     {_id: name, value: lock ID, ttl: s, obtained_at: date}   until obtained_at + ttl
//
//	                          NewTTL                  NewFlag                NewValue
//	old programs              insert the document,    update it, never       are those with the npm package
//	                          remove it               make or remove it      distributed-locks-mongodb
//	an old hold ends          by the TTL index, or    when lockedAt is       after obtained_at + ttl
//	                          never without it        older than Timeout
//	lock ID of an old hold    OldLockID               OldLockID              its value
//	fencing                   clock                   strict                 clock
//	a release of Holdfast's   deletes the document    sets locked to false   makes it expired
//	Sweep deletes             what has expired        nothing                what is idle
//
// An import of this package lets the URLs of package mongolock name a layout:
//
//	mongodb://db1,db2,db3/app?collection=locks&layout=flag&timeout=30s
//
// layout is ttl, flag or value; the first two take the timeout. Init refuses a
// collection whose documents or indexes are those of another layout.
//
// All three have exclusive locks alone, with all else that a Client does, takeover
// delays among it. There are no wake-ups: who waits asks from time to time.
//
// All is decided by the server, on its clock, in one statement on one document.
// Writes are acknowledged by the majority and journaled, reads go to the primary,
// whatever the collection was opened with. MongoDB 4.4 is needed. A sharded
// collection must be sharded by _id; keep the clocks of the routers together.
//
// What Holdfast adds to a document is in one field more, holdfast, which old
// programs leave alone. Ends are exact to the millisecond in all layouts: what
// they have of time, Holdfast writes so that the sum is the end. A hold without an
// end is one until the year 9999 for old programs.
//
// # Beside old programs
//
// An old program finds a resource held for as long as Holdfast holds it, and the
// other way round, as far as the old program goes by the server's clock: NewFlag's
// judge by their own. Those of NewTTL are also held up by what has expired, until
// the server removes it, once a minute, or Sweep does.
//
// A hold whose fields an old program has written is a new hold, of that program:
// it has no hold ID and no token, and whoever held the resource before, be it under
// the same lock ID, learns with the next renewal that his hold is lost. Nothing
// that Holdfast does for a hold of its own touches it. ForceRelease, ReleaseID and
// RenewID do, as they do for others.
//
// What Holdfast cannot mend in old programs: those of NewTTL and NewFlag release
// and extend by name alone, and so may end or take a hold that is not theirs, if
// they come too late. Those of NewValue do it to a hold of the same value.
//
// # Fencing
//
// NewFlag's tokens are strictly rising. In NewTTL a release deletes the document,
// and tokens rise with the server's clock: two holds within one of its
// milliseconds may have the same. In NewValue they are strictly rising as long as
// no old program releases the resource, for that deletes the document.
package mongodoc
