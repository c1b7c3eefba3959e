package mutants_test

import "testing"

// clientMutants are mistakes of the Client.
var clientMutants = []mutant{
	{
		name: "the deadline counts from the reply", file: "hold.go",
		old:  `deadline: c.deadlineOf(a.sent, a.q.TTL),`,
		new:  `deadline: c.deadlineOf(a.heard, a.q.TTL),`,
		test: "TestS05_reply_lost",
	},
	{
		name: "no try after the subscription", file: "acquire.go",
		old:  "if watch.start(ctx) {",
		new:  "if watch.start(ctx); false {",
		test: "TestS28_no_lost_wakeup",
	},
	{
		name: "a late answer revives the hold", file: "keepalive.go",
		old:  "case now >= h.deadline:",
		new:  "case false:",
		test: "TestLateReplyDoesNotRevive",
	},
	{
		name: "no margin", file: "deadline.go",
		old:  "return sent + ttl - cfg.marginOf(ttl)",
		new:  "return sent + ttl",
		test: "TestS20_renewals_hang",
	},
	{
		name: "a late grant is a success", file: "acquire.go",
		old:  "case err == nil && a.heard < c.deadlineOf(a.sent, a.q.TTL):",
		new:  "case err == nil && a.heard < never:",
		test: "TestS08_grant_too_late",
	},
	{
		name: "a repeat is a new acquisition", file: "acquire.go",
		old:  "if a.unknown == 0 {",
		new:  "if true {",
		test: "TestS05_reply_lost",
	},
	{
		name: "no clean-up", file: "cleanup.go",
		old:  "\t\tc.arm(c.clock(), o.due)\n",
		new:  "\t\to.tell()\n",
		test: "TestS12_cancelled_in_mid_acquire",
	},
	{
		name: "a clean-up ends with the first answer", file: "cleanup.go",
		old:  "case o.ended(), sent",
		new:  "case o.answered(), sent",
		test: "TestS12_cancelled_in_mid_acquire",
	},
	{
		name: "a clean-up ends with what one of two attempts was granted", file: "cleanup.go",
		old:  "case o.ended(), sent",
		new:  "case o.found, sent",
		test: "TestS12_one_of_two_requests_late",
	},
	{
		name: "a clean-up ends though a copy may come", file: "cleanup.go",
		old:  "case o.ended() && o.ends == byFinding && now < o.until:",
		new:  "case false:",
		test: "TestDoubledAcquire",
	},
	{
		name: "Close forgets the attempts before the one that was granted", file: "client.go",
		old:  "\t\t\tc.cleanStrays(h, 0)\n",
		new:  "\t\t\t_ = h\n",
		test: "TestStrayAtClose",
	},
	{
		name: "attempts before the one that was granted are forgotten", file: "hold.go",
		old:  "if a.unknown > 0 {\n\t\th.stray",
		new:  "if false {\n\t\th.stray",
		test: "TestStrayAfterUnlock",
	},
	{
		name: "a batch of releases that failed stays as it is", file: "release.go",
		old:  "r.share, failed = max(len(batch)/8, 1), true",
		new:  "r.share, failed = batchSize-1, true",
		test: "TestOrphanThatCannotBeReleased",
	},
	{
		name: "one sender for all releases of orphans", file: "cleanup.go",
		old:  "if o.share < batchSize {",
		new:  "if o.share < 0 {",
		test: "TestOrphanThatCannotBeReleased",
	},
	{
		name: "an attempt without an answer is forgotten with the grant", file: "hold.go",
		old:  "if a.unknown > 0 {\n\t\th.stray",
		new:  "if false {\n\t\th.stray",
		test: "TestStrayAfterUnlock",
	},
	{
		name: "Unlock tells the store before the holder", file: "hold.go",
		old:  "\tc.endHold(h, ErrReleased)\n",
		new:  "\tcancel := h.cancel\n\th.cancel = nil\n\tc.endHold(h, ErrReleased)\n\tif h.cancel = cancel; cancel != nil {\n\t\tdefer cancel(ErrReleased)\n\t}\n",
		test: "TestUnlockTellsTheHolderFirst",
	},
	{
		name: "a release that failed counts as done", file: "hold.go",
		old:  "if (err == nil || retaken) && h.state == released {",
		new:  "if h.state == released {",
		test: "TestUnlockRepeats",
	},
	{
		name: "Unlock does not look at the time", file: "hold.go",
		old:  "case c.clock() >= h.deadline:",
		new:  "case false:",
		test: "TestUnlockAfterTheEnd",
	},
	{
		name: "what is lost stays in the store", file: "hold.go",
		old:  "\t\t\tc.cleanLost(h, after)\n",
		new:  "",
		test: "TestUnlockOfTheLost",
	},
	{
		name: "as the Client closes a clean-up asks once", file: "cleanup.go",
		old:  "cleanCloseAsks = 3",
		new:  "cleanCloseAsks = 1",
		test: "TestCloseBeforeAcquireArrives",
	},
	{
		name: "as the Client closes a clean-up ends the delay of a release", file: "cleanup.go",
		old:  "o.q.After = max(o.from-c.clock(), 0)",
		new:  "o.q.After = 0",
		test: "TestCloseDuringDelay",
	},
	{
		name: "a clean-up ends only if nobody has retaken the lock", file: "release.go",
		old:  "return r.err == nil || errors.Is(r.err, errRetaken)",
		new:  "return r.err == nil",
		test: "TestCleanUpOfTheRetaken",
	},
	{
		name: "a try stands in line", file: "lock.go",
		old:  "if wait {",
		new:  "if true {",
		test: "TestTryPassesTheLine",
	},
	{
		name: "work under a shared hold stands in line behind those that wait for it", file: "queue.go",
		old:  "l.insert(a, a.shares)",
		new:  "l.insert(a, false)",
		test: "TestNested",
	},
	{
		name: "last come, first served", file: "queue.go",
		old:  "a.prev, l.last.next, l.last = l.last, a, a",
		new:  "a.prev, a.next = l.first, l.first.next\n\tif a.next == nil {\n\t\tl.last = a\n\t} else {\n\t\ta.next.prev = a\n\t}\n\tl.first.next = a",
		test: "TestLineIsFIFO",
	},
	{
		name: "news that are out of date", file: "queue.go",
		old:  "!w.asking && w.came < attempt &&",
		new:  "!w.asking &&",
		test: "TestS25a_own_hold",
	},
	{
		name: "an orphan passes for an own hold", file: "acquire.go",
		old:  "held.BySelf = !c.onlyOrphans(held, a.q.LockID)",
		new:  "_ = held",
		test: "TestS25a_own_hold",
	},
	{
		name: "a silent store reads as held", file: "queue.go",
		old:  "case errors.As(heard, &held):",
		new:  "case true:\n\t\theld = &HeldError{}\n\t\tfallthrough\n\tcase errors.As(heard, &held):",
		test: "TestUnknownIsNotHeld",
	},
	{
		name: "those who share go one by one", file: "queue.go",
		old:  "l.granted++",
		new:  "l.granted = 1",
		test: "TestSharedGoTogether",
	},
	{
		name: "all who share go at once", file: "queue.go",
		old:  "for n := l.granted; n > 0 && w != nil",
		new:  "for n := 1 << 30; n > 0 && w != nil",
		test: "TestSharedThatAreRefused",
	},
	{
		name: "those who share pass one who does not", file: "queue.go",
		old:  "w != nil && w.q.Mode == Shared && w.q.Limit == a.q.Limit; n--",
		new:  "w != nil; n--",
		test: "TestLineIsFIFO",
	},
	{
		name: "those who share are counted through a refusal", file: "queue.go",
		old:  "l.asked, l.granted = a.heard, 0",
		new:  "l.asked = a.heard",
		test: "TestSharedThatAreRefused",
	},
	{
		name: "nobody is told that he has become the first", file: "queue.go",
		old:  "\tif first {\n",
		new:  "\tif first && false {\n",
		test: "TestS31_waiter_times_out",
	},
	{
		name: "nobody waits for himself", file: "lock.go",
		old:  "if len(held) == 0 {",
		new:  "if true {",
		test: "TestNested",
	},
	{
		name: "Do says nothing of its hold", file: "hold.go",
		old:  "\tctx = context.WithValue(ctx, bindingKey{h.client}, &binding{h, h.client.binding(ctx)})\n",
		new:  "",
		test: "TestNested",
	},
	{
		name: "a hint of 0 is a time to wait", file: "acquire.go",
		old:  "if held.RetryAfter > 0 && held",
		new:  "if held.RetryAfter >= 0 && held",
		test: "TestHintOfZero",
	},
	{
		name: "the store's Init has no bound", file: "client.go",
		old:  "context.WithTimeout(ctx, initTimeout)",
		new:  "context.WithTimeout(ctx, 100*initTimeout)",
		test: "TestInit",
	},
	{
		name: "whoever waits waits for a timer Watch", file: "watch.go",
		old:  "time.NewTimer(subscribeTimeout)",
		new:  "time.NewTimer(1000 * subscribeTimeout)",
		test: "TestWatchThatIsDeaf",
	},
	{
		name: "contexts end one by one, with the user's code in between", file: "keepalive.go",
		old:  "\t\tc.lose(h, nil)\n",
		new:  "\t\tc.lose(h, nil)\n\t\tc.mu.Unlock()\n\t\tif told := c.notifier.pending(); told != nil {\n\t\t\t<-told\n\t\t}\n\t\tc.mu.Lock()\n",
		test: "TestContextsEndTogether",
	},
	{
		name: "a renewal of the user's that fails puts off the keep-alive", file: "keepalive.go",
		old:  "at = min(at, h.renewAt)",
		new:  "at += 0",
		test: "TestFailingRenewDoesNotStarveKeepAlive",
	},
	{
		name: "a batch that fails never shrinks", file: "keepalive.go",
		old:  "min(c.batch, max(len(batch)/8, 1))",
		new:  "c.batch",
		test: "TestBatchesShrink",
	},
	{
		name: "a renewal that hangs keeps those that travel with it", file: "keepalive.go",
		old:  "min((len(due)-again)/mostBatches, smallBatch)",
		new:  "smallBatch",
		test: "TestOneRenewalHangs",
	},
	{
		name: "a short lock limits the renewal of a long one", file: "keepalive.go",
		old:  " && due[n].renewTimeout(now) <= 2*timeout",
		new:  "",
		test: "TestShortLocksBesideALongOne",
	},
	{
		name: "a batch of releases that failed is sent again as it was", file: "release.go",
		old:  "r.share, failed = max(len(batch)/8, 1), true",
		new:  "failed = true",
		test: "TestReleasesShrink",
	},
	{
		name: "what is missing in a batch is lost", file: "keepalive.go",
		old:  "case i >= len(results):\n",
		new:  "case i >= len(results):\n\t\terr = ErrLost\n\t\treturn err\n",
		test: "TestBatchOutcomes",
	},
	{
		name: "a renewal shortens the lease", file: "keepalive.go",
		old:  "h.deadline = max(h.deadline, c.deadlineOf(sent, ttl))",
		new:  "h.deadline = c.deadlineOf(sent, ttl)",
		test: "TestRenew",
	},
	{
		name: "the timer forgets all holds but one", file: "keepalive.go",
		old:  "next = min(next, h.due())",
		new:  "next = h.due()",
		test: "TestCollect",
	},
	{
		name: "timers alone tell the time", file: "keepalive.go",
		old:  "at = min(at, now+maxSleep)",
		new:  "at += 0",
		test: "TestS17a_machine_sleeps",
	},
}

func TestClientMutants(t *testing.T) {
	suite{module: ".", pkg: "."}.catches(t, clientMutants)
}
