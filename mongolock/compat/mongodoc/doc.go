// Package mongodoc keeps locks in MongoDB collections in which programs without
// Holdfast already lock. It uses the layout of their documents, so that old and new
// programs exclude one another. There are three layouts:
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
// If a program imports this package, the URLs of package mongolock may name a layout:
//
//	mongodb://db1,db2,db3/app?collection=locks&layout=flag&timeout=30s
//
// layout is ttl, flag or value; the first two take the timeout. Init refuses a
// collection whose documents or indexes are those of another layout.
//
// The layouts have no shared locks. All other features of a Client work, takeover
// delays too. There are no wake-ups: waiters poll.
//
// The server decides everything, by its clock, with one statement on one document.
// Writes are acknowledged by the majority and journaled, and reads go to the primary,
// however the collection was opened. MongoDB 4.4 is needed. A sharded collection must
// be sharded by _id; keep the clocks of the routers together.
//
// Holdfast adds one field to a document, holdfast, which old programs leave alone.
// Ends are exact to the millisecond in all layouts: Holdfast writes the fields so that
// their sum is the end. To old programs, a hold without an end is one until the year
// 9999.
//
// # Beside old programs
//
// An old program finds a resource held for as long as Holdfast holds it, and the
// other way round. That is true if the old program uses the server's clock: old programs
// of NewFlag use their own. For that reason the age of an old program's hold is not known.
// Expired locks also block old programs of NewTTL, until the server removes them, once a
// minute, or Sweep does.
//
// If an old program writes the fields of a hold, that is a new hold of the old
// program. It has no hold ID and no token. The next renewal of the former holder
// reports that its hold is lost, even if the lock ID is the same. The new hold is not
// changed by requests about Holdfast's own holds. ForceRelease, ReleaseID and RenewID
// change it, as they change others.
//
// Holdfast cannot fix two defects of old programs. Those of NewTTL and NewFlag
// release and extend by name alone: if they are late, they end or take a hold that is
// not theirs. Those of NewValue do that to a hold of the same value.
//
// # Fencing
//
// NewFlag's tokens are strictly rising. In NewTTL a release deletes the document, and
// tokens rise with the server's clock: two holds within one of its milliseconds may
// have the same. In NewValue they are strictly rising as long as no old program
// releases the resource, because that deletes the document.
package mongodoc
