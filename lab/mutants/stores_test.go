package mutants_test

import (
	"strings"
	"testing"

	"github.com/holdfast-go/holdfast/lab/engines"
)

// working is a subtest of the conformance suite that acquires, is refused and releases in both
// modes. It uses nothing that a mutant gets wrong.
const working = "S26_writers_among_readers"

// storeMutants are mistakes in stores. The conformance suite must detect each of them, run by
// the tests of the store.
var storeMutants = []struct {
	store   string
	engine  func(t testing.TB) engines.Engine // server that the tests need, or nil
	suite   suite
	mutants []mutant
}{
	{store: "memory", suite: suite{".", "./memlock", working}, mutants: []mutant{
		{
			name: "tokens go by the clock alone", file: "driver/model/acquire.go",
			old:  "token := r.Token + 1\n",
			new:  "token := uint64(1)\n",
			test: "TestConformance/S09_tokens_rise",
		},
		{
			name: "a sweep goes on to the end", file: "driver/base/sweep.go",
			old:  "\tw := sweep{Store: s, SweepRequest: q}\n",
			new:  "\tq.Most = 0\n\tw := sweep{Store: s, SweepRequest: q}\n",
			test: "TestConformance/sweeps_are_bounded",
		},
		{
			name: "limits are not compared", file: "driver/model/acquire.go",
			old:  " || q.LimitDiffers(mode, limit)",
			new:  "",
			test: "TestConformance/S25_limits",
		},
	}},
	{store: "sqlite", suite: suite{"sqlitelock", ".", working}, mutants: []mutant{
		{
			name: "a record is written though it changed since it was read", file: "sqlitelock/statements.go",
			old:  "\"BEGIN IMMEDIATE\"\n\tcommitSQL   = \"COMMIT\"",
			new:  "\"SELECT 1\"\n\tcommitSQL   = \"SELECT 1\"",
			test: "TestConformance/renewals_under_churn",
		},
		{
			name: "a batch that is made in part reads as done", file: "sqlitelock/store.go",
			old:  "for i := range us {",
			new:  "for i := range us[:(len(us)+1)/2] {",
			test: "TestConformance/S27_groups_among_others",
		},
		{
			name: "a sweep deletes what was locked since it looked", file: "driver/base/sweep.go",
			old:  "case remove:",
			new:  "case remove || dropped == 0:",
			test: "TestConformance/S32_sweep_races_acquires",
		},
		{
			name: "a renewal undoes the signal of a release", file: "sqlitelock/statements.go",
			old:  "freed = max(freed, excluded.freed)",
			new:  "freed = excluded.freed",
			test: "TestConformance/S28_release_among_changes",
		},
	}},
	{store: "redis", engine: engines.Redis, suite: suite{"redislock/integration", ".", working}, mutants: []mutant{
		{
			name: "a release goes by the lock ID alone", file: "redislock/holds.lua",
			old:  "h[ID] ~= id and id ~= NOBODY",
			new:  "false",
			test: "TestConformanceInRealTime/S04_release_repeated",
		},
		{
			name: "a clock that was set back gives its tokens again", file: "redislock/fast.lua",
			old:  "byte(raw) == IDLE and sub(raw, 18) < digits then",
			new:  "byte(raw) == IDLE then",
			test: "TestConformance/S09_clock_a_year_ahead",
		},
		{
			name: "a permit past its end counts", file: "redislock/acquire.lua",
			old:  "if now < clear(h) then",
			new:  "if true then",
			test: "TestConformance/S25_expired_permit_frees_its_slot",
		},
		{
			name: "the key expires with the lease, and forgets the takeover delay", file: "redislock/script.go",
			old:  "stays.Microseconds(), (stays + slack).Milliseconds()",
			new:  "stays.Microseconds(), q.TTL.Milliseconds()",
			test: "TestConformance/S25b_takeover_delay",
		},
		{
			name: "limits are not compared", file: "redislock/acquire.lua",
			old:  "\n    or shared and r.limit and r.limit ~= limit",
			new:  "",
			test: "TestConformanceInRealTime/S25_limits",
		},
		{
			name: "a repeat is granted without the replicas", file: "redislock/acquire.lua",
			old:  "r.changed = true\n    local reply",
			new:  "local reply",
			test: "TestReplicaIsAway",
		},
		{
			name: "a replica says what is lost", file: "redislock/run.lua",
			old:  "    refuse_replicas(key, r)\n",
			new:  "",
			test: "TestReplicaAnswersNothing",
		},
		{
			name: "a server that cannot write a place does not refuse", file: "redislock/record.lua",
			old:  "elseif not r.changed and not",
			new:  "elseif false and not",
			test: "TestRefusalsNeedNoWrite",
		},
		{
			name: "a refusal names a place that is not written", file: "redislock/run.lua",
			old:  "return run(key, indexes, true)",
			new:  "return",
			test: "TestRefusalsNeedNoWrite",
		},
		{
			name: "who has no place passes those that wait", file: "redislock/queue.lua",
			old:  "if p[FAIR] == 1 then",
			new:  "if p[FAIR] == 1 and mine[PLACE] ~= NOBODY then",
			test: "TestConformanceInRealTime/places_stop_others",
		},
		{
			name: "a grant leaves its place in the queue", file: "redislock/acquire.lua",
			old:  "\n  leave(r, place[PLACE])",
			new:  "",
			test: "TestConformanceInRealTime/places_stop_others",
		},
		{
			name: "an error of the server reads as a release", file: "redislock/operations.go",
			old:  "driver.ReleaseResult{Found: found == 1, Err: err}",
			new:  "driver.ReleaseResult{Found: found == 1 && err == nil}",
			test: "TestConformanceInRealTime/S37_damaged_record",
		},
	}},
	{store: "postgres", engine: engines.Postgres, suite: suite{"pglock/integration", ".", working}, mutants: []mutant{
		{
			name: "an acquire decides on a row that it has not locked", file: "pglock/sql/3_acquire.sql",
			old:  " FOR UPDATE;\n    EXIT WHEN FOUND;",
			new:  ";\n    EXIT WHEN FOUND;",
			test: "TestConformance/S01_concurrent_history",
		},
		{
			name: "who has no place passes those that wait", file: "pglock/sql/2_holds.sql",
			old:  "coalesce(index, jsonb_array_length(live))",
			new:  "coalesce(index, CASE WHEN in_place IS NULL THEN 0 ELSE jsonb_array_length(live) END)",
			test: "TestConformanceInRealTime/places_stop_others",
		},
		{
			name: "a renewal gives an end to a hold that has none", file: "pglock/sql/4_change.sql",
			old:  " OR in_hold->'end' IS NULL",
			new:  "",
			test: "TestConformance/S21_forever",
		},
		{
			name: "a renewal revives a hold past its end", file: "pglock/sql/4_change.sql",
			old:  "(in_release OR {schema}.live(hs[i], clock) AND ",
			new:  "(in_release OR ",
			test: "TestConformance/S07_renewal_after_expiry",
		},
		{
			name: "limits are not compared", file: "pglock/sql/3_acquire.sql",
			old:  "IF mine OR h->>'mode' = 'exclusive' OR in_hold->>'mode' = 'exclusive' OR h->'limit' <> in_hold->'limit'",
			new:  "IF mine OR h->>'mode' = 'exclusive' OR in_hold->>'mode' = 'exclusive'",
			test: "TestConformance/S25_limits",
		},
		{
			name: "a repeat is answered from what the primary has", file: "pglock/sql/3_acquire.sql",
			old:  "    IF outcome < 0 THEN\n      RETURN;\n    ELSIF outcome = 0 THEN",
			new:  "    IF outcome < 0 OR d.granted IS NOT NULL THEN\n      token := (d.granted->'token')::bigint;\n      ends := (d.granted->'end')::bigint;\n      RETURN;\n    ELSIF outcome = 0 THEN",
			test: "TestRepeatWaitsForStandby",
		},
		{
			name: "a server that cannot write a place does not refuse", file: "pglock/acquire.go",
			old:  "if failed(err) && !q.Place.IsZero()",
			new:  "if false && !q.Place.IsZero()",
			test: "TestRefusalsNeedNoWrite",
		},
		{
			name: "an update of no row is a grant", file: "pglock/sql/3_acquire.sql",
			old:  "  IF stored IS NOT TRUE THEN\n    PERFORM {schema}.unchanged(in_resource);\n  END IF;\nEND",
			new:  "END",
			test: "TestRowsStayAsTheyAre",
		},
		{
			name: "functions of other roles decide", file: "pglock/sql/4_change.sql",
			old:  " SET search_path = pg_catalog, pg_temp",
			new:  "",
			test: "TestFunctionsOfOthers",
		},
		{
			name: "a sweep goes on to the end", file: "pglock/sql/7_sweep.sql",
			old:  "EXIT WHEN more;",
			new:  "EXIT WHEN false;",
			test: "TestConformance/sweeps_are_bounded",
		},
		{
			name: "a hold that was given up blocks for its takeover delay", file: "pglock/sql/2_holds.sql",
			old:  "CASE WHEN (in_hold->'released')::boolean THEN 0 ELSE coalesce((in_hold->'takeoverDelayMs')::bigint, 0) * 1000 END",
			new:  "coalesce((in_hold->'takeoverDelayMs')::bigint, 0) * 1000",
			test: "TestConformance/S25b_takeover_delay",
		},
		{
			name: "a hold whose row another has locked reads as lost", file: "pglock/sql/4_change.sql",
			old:  "verdict := 2;",
			new:  "verdict := 0;",
			test: "TestConformance/S27_groups_among_others",
		},
		{
			name: "a renewal without an answer reads as lost", file: "pglock/change.go",
			old:  "\t\t\t\tc.err = err\n",
			new:  "\t\t\t\tc.err = driver.ErrLost\n",
			test: "TestConformanceBehindNetwork/S32_sweep_races_renewals",
		},
	}},
	{store: "mongodb", engine: engines.MongoDB, suite: suite{"mongolock/integration", ".", working}, mutants: []mutant{
		{
			name: "the client's clock decides", file: "internal/mongokit/statement.go",
			old:     `"now", "$$NOW"`,
			new:     `"now", time.Now()`,
			imports: "time",
			test:    "TestConformance/S07_renewal_after_expiry",
		},
		{
			name: "limits are not compared", file: "mongolock/statements.go",
			old:  "\t\t\tnot(limitDiffers()),\n",
			new:  "",
			test: "TestConformance/S25_limits",
		},
		{
			name: "a repeat is answered from what one member has", file: "mongolock/statements.go",
			old:  `bson.A{tmp("granted"), tmp("repeated")}`,
			new:  `bson.A{tmp("granted")}`,
			test: "TestRepeatWrites",
		},
		{
			name: "a server that does not decide on a place does not refuse", file: "mongolock/acquire.go",
			old:  " && !mongokit.Undecided(err)",
			new:  "",
			test: "TestRefusalsNeedNoWrite",
		},
		{
			name: "a place that a command took which began later is dropped", file: "mongolock/queue.go",
			old:  "const skew = 5 * time.Second",
			new:  "const skew = 0 * time.Second",
			test: "TestPlaceOfACommandThatBeganLater",
		},
		{
			name: "a renewal that the reply does not show is taken for done", file: "mongolock/batch.go",
			old:  "h.LockID == q.LockID && h.Renewed == d.now",
			new:  "h.LockID == q.LockID",
			test: "TestDamage",
		},
		{
			name: "a call takes part in the transaction of its ctx", file: "internal/mongokit/commands.go",
			old:  "return mongo.NewSessionContext(ctx, nil)",
			new:  "return ctx",
			test: "TestOutsideTransactions",
		},
		{
			name: "what the driver has too little time for is not sent", file: "internal/mongokit/commands.go",
			old:  "!strings.Contains(err.Error(), notSent) ||",
			new:  "!strings.Contains(err.Error(), notSent) || true ||",
			test: "TestSlowStart",
		},
		{
			name: "a hold blocks at its end", file: "mongolock/statements.go",
			old:  `lte(lock("expiresAt"), tmp("now"))`,
			new:  `lt(lock("expiresAt"), tmp("now"))`,
			test: "TestConformance/end_is_exclusive",
		},
	}},
	{store: "elasticsearch", engine: engines.OpenSearch, suite: suite{"eslock/integration", ".", working}, mutants: []mutant{
		{
			name: "a late holder releases what its lock ID holds now", file: "eslock/read.painless",
			old:  "(ref.holdId == '' || h.holdId == ref.holdId) && (ref.token == 0 || h.token == ref.token)",
			new:  "true",
			test: "TestConformance/opensearch/S04_release_repeated",
		},
		{
			name: "limits are not compared", file: "eslock/acquire.painless",
			old:  "(h.limit == null || h.limit == params.hold.limit)",
			new:  "true",
			test: "TestConformance/opensearch/S25_limits",
		},
		{
			name: "a repeat is answered from what one node has", file: "eslock/acquire.painless",
			old:  "  write(ctx, r, r.holds, ['token': own.token, 'ends': [endOf(own)]]);",
			new:  "  reply(ctx, r);",
			test: "TestRepeatsAreWritten",
		},
		{
			name: "who has no place passes those that wait", file: "eslock/acquire.painless",
			old:  "} else if (at < 0 && p.fair == true) {",
			new:  "} else if (params.place != null && at < 0 && p.fair == true) {",
			test: "TestConformance/opensearch/places_stop_others",
		},
		{
			name: "a grant leaves its place in the queue", file: "eslock/acquire.painless",
			old:  "    r.places.removeIf(p -> p.placeId == params.place.placeId);",
			new:  "    r.places.removeIf(p -> false);",
			test: "TestConformance/opensearch/places_stop_others",
		},
		{
			name: "a place is written beside the lock of an old client", file: "eslock/read.painless",
			old:  "    if (!old) {",
			new:  "    if (ours || old) {",
			test: "TestPlacesBesideOldClients",
		},
		{
			name: "the clock that decides lags, now more and now less", file: "eslock/statement.go",
			old:  "json.Marshal(compact(readText + text))",
			new:  `json.Marshal(strings.ReplaceAll(compact(readText+text), "System.currentTimeMillis()", "ctx._now"))`,
			test: "TestConformance/opensearch/a_lease_lasts",
		},
		{
			name: "a renewal shortens a lease", file: "eslock/renew.painless",
			old:  "h.end != null && h.end < now + ref.ttl",
			new:  "h.end != null",
			test: "TestConformance/opensearch/S07a_late_requests_never_shorten",
		},
	}},
}

func TestStoreMutants(t *testing.T) {
	for _, s := range storeMutants {
		t.Run(s.store, func(t *testing.T) {
			if s.engine != nil {
				// Start the server once for all mutants: otherwise each test process would
				// start its own.
				e := s.engine(t)
				t.Setenv("HOLDFAST_TEST_"+strings.ToUpper(e.Kind)+"_URL", e.URL)
			}
			s.suite.catches(t, s.mutants)
		})
	}
}
