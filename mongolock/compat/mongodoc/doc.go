// Package mongodoc keeps locks in MongoDB collections that programs without Holdfast
// already use for locks. It uses the layout of their documents, so old and new programs
// exclude one another. There are three layouts:
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
// layout is ttl, flag or value. The layouts ttl and flag take the timeout. Init refuses a
// collection with documents or indexes of another layout.
//
// The layouts have no shared locks. All other features of a Client work, including
// takeover delays. There are no wake-ups: waiters poll.
//
// The server decides everything, by its clock, with one statement on one document. Writes
// are acknowledged by the majority and journaled, and reads go to the primary, whatever
// the settings of the collection are. MongoDB 4.4 or newer is required. A sharded
// collection must be sharded by _id; keep the clocks of the routers in step.
//
// Holdfast adds one field to a document, holdfast, which old programs leave alone. Ends
// are exact to the millisecond in all layouts: the fields that Holdfast writes add up to
// the end. Old programs see a hold without an end as one until the year 9999.
//
// # Beside old programs
//
// An old program finds a resource held for as long as Holdfast holds it, and vice versa.
// This requires that the old program uses the server's clock. Old programs of NewFlag use
// their own clocks, so the age of their holds is unknown. Expired locks also block old
// programs of NewTTL until Sweep or the server removes them. The server does that once a
// minute.
//
// When an old program writes the fields of a hold, that makes a new hold of the old
// program, without a hold ID and a token. The next renewal of the former holder reports
// that its hold is lost, even if the lock ID is the same. Requests about Holdfast's own
// holds do not change the new hold. ForceRelease, ReleaseID and RenewID change it like
// any other hold.
//
// Holdfast cannot fix two defects of old programs. Old programs of NewTTL and NewFlag
// release and extend by name alone: if they are late, they end or take over a hold of
// another program. Old programs of NewValue do that to a hold with the same value.
//
// # Fencing
//
// NewFlag's tokens are strictly rising. In NewTTL a release deletes the document, and
// tokens rise with the server's clock: two holds within one millisecond of it may have
// the same token. In NewValue tokens are strictly rising unless an old program releases
// the resource, because that deletes the document.
package mongodoc
