package mutants_test

import "testing"

// clientMutants are mistakes in the Client and in the packages below it.
var clientMutants = []mutant{
	{
		name: "a store sees the cause of the caller's ctx", file: "internal/storecall/storecall.go",
		old:  "parent = Uncaused{c.Parent}",
		new:  "parent = c.Parent",
		test: "TestCauseIsNoAnswer",
	},
	{
		name: "a store sees the cause before it asks for a channel", file: "internal/storecall/storecall.go",
		old:  "ctx = Uncaused{c.Parent}",
		new:  "ctx = c.Parent",
		test: "TestCauseIsNoAnswer",
	},
	{
		name: "a list sees the cause of the caller's ctx", file: "admin.go",
		old:  "context.WithCancel(storecall.Uncaused{Context: ctx})",
		new:  "context.WithCancel(storecall.Uncaused{Context: ctx}.Context)",
		test: "TestCauseIsNoAnswer",
	},
	{
		name: "the error of a ctx that ended is its cause", file: "internal/foreign/foreign.go",
		old:  `return fmt.Errorf("%w: %v", err, cause)`,
		new:  `return fmt.Errorf("%w: %w", err, cause)`,
		test: "TestCauseIsNoAnswer",
	},
	{
		name: "the deadline counts from the reply", file: "internal/lease/lease.go",
		old:  "l.deadline, l.renewAt = ls.Deadline(sent, lease), sent+lease/3",
		new:  "l.deadline, l.renewAt = ls.Deadline(now, lease), sent+lease/3",
		test: "TestS05_reply_lost",
	},
	{
		name: "nobody asks again once a subscription is effective", file: "internal/waitline/watch.go",
		old:  "if l.sub == sub && l.head != nil {\n\t\tl.head.invite()",
		new:  "if false {\n\t\tl.head.invite()",
		test: "TestS28_no_lost_wakeup",
	},
	{
		name: "a late answer revives the hold", file: "internal/lease/renew.go",
		old:  "case now >= l.deadline:",
		new:  "case false:",
		test: "TestLateReplyDoesNotRevive",
	},
	{
		name: "no margin", file: "internal/lease/lease.go",
		old:  "return sent + ttl - ls.Margin(ttl)",
		new:  "return sent + ttl",
		test: "TestS20_renewals_hang",
	},
	{
		name: "a late grant is a success", file: "acquire.go",
		old:  "case err == nil && a.heard < c.leases.Deadline(a.sent, a.q.TTL):",
		new:  "case err == nil && a.heard < storecall.Never:",
		test: "TestS08_grant_too_late",
	},
	{
		name: "a repeat is a new acquisition", file: "acquire.go",
		old:  "if a.unknown == 0 {",
		new:  "if true {",
		test: "TestS05_reply_lost",
	},
	{
		name: "no clean-up", file: "internal/cleanup/cleanup.go",
		old:  "\tc.orphans[key] = n\n\tc.hasten()\n",
		new:  "\tn.tell()\n",
		test: "TestS12_cancelled_in_mid_acquire",
	},
	{
		name: "a clean-up ends with the first answer", file: "internal/cleanup/cleanup.go",
		old:  "case o.ended(), sent",
		new:  "case o.answered(), sent",
		test: "TestS12_cancelled_in_mid_acquire",
	},
	{
		name: "a clean-up ends with what one of two attempts was granted", file: "internal/cleanup/cleanup.go",
		old:  "case o.ended(), sent",
		new:  "case o.found, sent",
		test: "TestS12_one_of_two_requests_late",
	},
	{
		name: "a clean-up ends though a copy may come", file: "internal/cleanup/cleanup.go",
		old:  "case o.ended() && o.ends == byFinding && now < o.Until:",
		new:  "case false:",
		test: "TestDoubledAcquire",
	},
	{
		name: "Close forgets the attempts before the one that was granted", file: "client.go",
		old:  "\t\t\tc.cleanStrays(holdOf(l), 0)\n",
		new:  "\t\t\t_ = l\n",
		test: "TestStrayAtClose",
	},
	{
		name: "attempts before the one that was granted are forgotten", file: "acquire.go",
		old:  "if a.unknown > 0 {\n\t\th.stray",
		new:  "if false {\n\t\th.stray",
		test: "TestStrayAfterUnlock",
	},
	{
		name: "a batch of releases that failed stays as it is", file: "internal/cleanup/release.go",
		old:  "r.share, failed = max(len(batch)/8, 1), true",
		new:  "r.share, failed = batchSize-1, true",
		test: "TestOrphanThatCannotBeReleased",
	},
	{
		name: "one sender for all releases of orphans", file: "internal/cleanup/cleanup.go",
		old:  "c.Scope.Go(func() { c.clean(batch, qs, true) })",
		new:  "c.clean(batch, qs, true)",
		test: "TestOrphanThatCannotBeReleased",
	},
	{
		name: "Unlock tells the store before the holder", file: "internal/lease/lease.go",
		old:  "\t\tl.cancel(cause)\n",
		new:  "\t\ttime.AfterFunc(time.Millisecond, func() { l.cancel(cause) })\n",
		test: "TestUnlockTellsTheHolderFirst",
	},
	{
		name: "a release that failed counts as done", file: "internal/lease/lease.go",
		old:  "if confirmed {\n\t\tl.gone",
		new:  "if true {\n\t\tl.gone",
		test: "TestUnlockRepeats",
	},
	{
		name: "Unlock does not look at the time", file: "internal/lease/lease.go",
		old:  "cause error) {\n\tls.expire(l)\n",
		new:  "cause error) {\n",
		test: "TestUnlockAfterTheEnd",
	},
	{
		name: "what is lost stays in the store", file: "hold.go",
		old:  "\t\t\tc.cleanLost(h, e)\n",
		new:  "",
		test: "TestUnlockOfTheLost",
	},
	{
		name: "as the Client closes a clean-up asks once", file: "internal/cleanup/cleanup.go",
		old:  "closingAsks = 3",
		new:  "closingAsks = 1",
		test: "TestCloseBeforeAcquireArrives",
	},
	{
		name: "as the Client closes a clean-up ends the delay of a release", file: "internal/cleanup/cleanup.go",
		old:  "r.q.After = max(r.orphan.From-now, 0)",
		new:  "r.q.After = 0",
		test: "TestCloseDuringDelay",
	},
	{
		name: "a clean-up ends only if nobody has retaken the lock", file: "internal/cleanup/release.go",
		old:  "return r.err == nil || errors.Is(r.err, ErrRetaken)",
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
		name: "last come, first served", file: "internal/waitline/line.go",
		old:  "at = len(l.waiters)\n\tfor",
		new:  "at = min(len(l.waiters), 1)\n\tfor",
		test: "TestLineIsFIFO",
	},
	{
		name: "what the store said before counts more than an own hold", file: "acquire.go",
		old:  "} else if own != nil {",
		new:  "} else if false {",
		test: "TestOwnHoldWhileAsking",
	},
	{
		name: "a hold of another process passes for an own one", file: "acquire.go",
		old:  "own != nil && held.BySelf {",
		new:  "held.BySelf {",
		test: "TestS25a_own_hold",
	},
	{
		name: "a silent store reads as held", file: "acquire.go",
		old:  "case errors.Is(heard, ErrHeld):",
		new:  "case true:\n\t\te = &HeldError{}\n\t\tfallthrough\n\tcase errors.Is(heard, ErrHeld):",
		test: "TestUnknownIsNotHeld",
	},
	{
		name: "those who share go one by one", file: "internal/waitline/line.go",
		old:  "l.granted++",
		new:  "l.granted = 1",
		test: "TestSharedGoTogether",
	},
	{
		name: "all who share go at once", file: "internal/waitline/line.go",
		old:  "n := l.granted",
		new:  "n := 1 << 30",
		test: "TestSharedThatAreRefused",
	},
	{
		name: "those who share pass one who does not", file: "internal/waitline/line.go",
		old:  "case w.Kind.Mode != driver.Shared || w.Kind.Limit != k.Limit:",
		new:  "case false:",
		test: "TestLineIsFIFO",
	},
	{
		name: "those who share are counted through a refusal", file: "internal/waitline/waitline.go",
		old:  "\tl.granted = 0\n\tif !l",
		new:  "\tif !l",
		test: "TestSharedThatAreRefused",
	},
	{
		name: "nobody is told that he has become the first", file: "internal/waitline/line.go",
		old:  "\tdefault:\n\t\tnext.invite()\n",
		new:  "\tdefault:\n",
		test: "TestS31_waiter_times_out",
	},
	{
		name: "nobody waits for himself", file: "lock.go",
		old:  "h.client == c && h.Resource() == resource && h.Left() > 0",
		new:  "false",
		test: "TestReentry",
	},
	{
		name: "Do says nothing of its hold", file: "hold.go",
		old:  "context.WithValue(ctx, bindingKey{}, &binding{hold: h, outer: bindingOf(ctx)})",
		new:  "ctx",
		test: "TestReentry",
	},
	{
		name: "bound contexts end some time after the hold", file: "internal/lease/lease.go",
		old:  "ends = slices.AppendSeq(ends, maps.Values(l.bound))",
		new:  "_ = slices.AppendSeq(ends, maps.Values(l.bound))",
		test: "TestBoundContextsEndFirst",
	},
	{
		name: "a hint of 0 is a time to wait", file: "internal/waitline/pace.go",
		old:  "if e.RetryAfter <= 0 ||",
		new:  "if e.RetryAfter < 0 ||",
		test: "TestHintOfZero",
	},
	{
		name: "the store's Init has no bound", file: "client.go",
		old:  "Timeout: initTimeout}",
		new:  "Timeout: 100 * initTimeout}",
		test: "TestInit",
	},
	{
		name: "waiters wait for a Watch that hangs", file: "internal/waitline/watch.go",
		old:  "time.NewTimer(WatchTimeout)",
		new:  "time.NewTimer(1000 * WatchTimeout)",
		test: "TestWatchThatIsDeaf",
	},
	{
		name: "contexts end one by one, with the user's code in between", file: "internal/lease/renew.go",
		old:  "\t\tls.lose(l, nil)\n",
		new:  "\t\tls.lose(l, nil)\n\t\tls.mu.Unlock()\n\t\ttime.Sleep(time.Nanosecond)\n\t\tls.mu.Lock()\n",
		test: "TestContextsEndTogether",
	},
	{
		name: "a renewal of the user's that fails puts off the keep-alive", file: "internal/lease/renew.go",
		old:  "at = min(at, l.renewAt)",
		new:  "at += 0",
		test: "TestFailingRenewDoesNotStarveKeepAlive",
	},
	{
		name: "a batch that fails never shrinks", file: "internal/lease/renew.go",
		old:  "min(ls.batch, max(len(batch)/8, 1))",
		new:  "ls.batch",
		test: "TestBatchesShrink",
	},
	{
		name: "a renewal that hangs keeps those that travel with it", file: "internal/lease/renew.go",
		old:  "min((len(due)-again)/mostBatches, smallBatch)",
		new:  "smallBatch",
		test: "TestOneRenewalHangs",
	},
	{
		name: "another grant of a hold ID is taken for the one that was listed", file: "internal/lease/lease.go",
		old:  "l != nil && l.Ref.Token == ref.Token",
		new:  "l != nil",
		test: "TestGrantedAgainOnTheWay",
	},
	{
		name: "what is lost without an end is left to Unlock", file: "internal/lease/lease.go",
		old:  "ls.Scope.Go(func() { ls.Forgotten(l, ttl) })",
		new:  "_ = ttl",
		test: "TestEndlessGoesInTheEnd",
	},
	{
		name: "several callers get one error", file: "internal/waitline/line.go",
		old:  "own.Holders, own.Ahead = slices.Clone(e.Holders), slices.Clone(e.Ahead)",
		new:  "own.Holders, own.Ahead = e.Holders, e.Ahead",
		test: "TestErrorsAreNotShared",
	},
	{
		name: "a short lock limits the renewal of a long one", file: "internal/lease/renew.go",
		old:  " && due[n].renewTimeout(now) <= 2*timeout",
		new:  "",
		test: "TestShortLocksBesideALongOne",
	},
	{
		name: "a batch of releases that failed is sent again as it was", file: "internal/cleanup/release.go",
		old:  "r.share, failed = max(len(batch)/8, 1), true",
		new:  "failed = true",
		test: "TestReleasesShrink",
	},
	{
		name: "what is missing in a batch is lost", file: "internal/storecall/storecall.go",
		old:  "case i >= len(results):\n",
		new:  "case i >= len(results):\n\t\treturn driver.ErrLost\n",
		test: "TestBatchOutcomes",
	},
	{
		name: "a renewal shortens the lease", file: "internal/lease/renew.go",
		old:  "l.deadline = max(l.deadline, ls.Deadline(sent, ttl))",
		new:  "l.deadline = ls.Deadline(sent, ttl)",
		test: "TestRenew",
	},
	{
		name: "timers alone tell the time", file: "internal/lease/renew.go",
		old:  "at := min(ls.due, now+maxSleep)",
		new:  "at := ls.due",
		test: "TestS17a_machine_sleeps",
	},
	{
		name: "who joins behind others does not look for a hold of its own", file: "acquire.go",
		old:  "own != nil {\n\t\t\tw.Leave()",
		new:  "own != nil && false {\n\t\t\tw.Leave()",
		test: "TestS25a_own_hold",
	},
	{
		name: "Unlock does not wait for bound contexts", file: "internal/lease/lease.go",
		old:  "bound {\n\t\tls.endBound(l)",
		new:  "bound {\n\t\tgo ls.endBound(l)",
		test: "TestBoundContextsEndFirst",
	},
	{
		name: "a clean-up ends before the takeover delay", file: "internal/cleanup/cleanup.go",
		old:  "min(q.TTL, most) + min(q.TakeoverDelay, most)",
		new:  "min(q.TTL, most)",
		test: "TestTakeoverDelayIsCleanedUp",
	},
	{
		name: "a place that was dropped stays", file: "acquire.go",
		old:  "c.cleaner.TakeOut(d.Place)",
		new:  "_ = d.Place",
		test: "TestLateAttemptLeavesNoPlace",
	},
	{
		name: "the time that a process was stopped counts as silence", file: "internal/waitline/line.go",
		old:  "min(max(now-l.passed, 0), l.most)",
		new:  "max(now-l.passed, 0)",
		test: "TestStoppedWhileItWaits",
	},
}

func TestClientMutants(t *testing.T) {
	suite{module: ".", pkg: "."}.catches(t, clientMutants)
}

// roomMutants are mistakes in the packages below the Client that their own tests detect.
var roomMutants = []struct {
	pkg     string
	mutants []mutant
}{
	{pkg: "./internal/waitline", mutants: []mutant{
		{
			name: "an invitation is lost before the next turn", file: "internal/waitline/waitline.go",
			old:  "ls, fired := w.ls, false\n",
			new:  "ls, fired := w.ls, false\n\tls.mu.Lock()\n\tw.invited = false\n\tls.mu.Unlock()\n",
			test: "TestNoInvitationIsLost",
		},
		{
			name: "a line that is used again keeps its subscription", file: "internal/waitline/line.go",
			old:  "waiters: l.waiters}",
			new:  "waiters: l.waiters, sub: l.sub}",
			test: "TestLineIsUsedAgain",
		},
	}},
	{pkg: "./internal/lease", mutants: []mutant{
		{
			name: "a second end of a hold does not wait for bound contexts", file: "internal/lease/lease.go",
			old:  "maps.Values(l.bound))\n",
			new:  "maps.Values(l.bound))\n\t\t\tl.bound = nil\n",
			test: "TestEndWaitsForBound",
		},
		{
			name: "the timer forgets all holds but one", file: "internal/lease/renew.go",
			old:  "next = min(next, l.due())",
			new:  "next = l.due()",
			test: "TestCollect",
		},
	}},
}

func TestRoomMutants(t *testing.T) {
	for _, room := range roomMutants {
		suite{module: ".", pkg: room.pkg}.catches(t, room.mutants)
	}
}
