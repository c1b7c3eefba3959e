package main

import (
	"context"
	"fmt"
)

// measurePostgresRenewals counts the statements of many renewals.
func measurePostgresRenewals(ctx context.Context, _ string) []result {
	db := openPostgres(ctx)
	defer finish(db.close)
	trips, took := renewMany(ctx, db.store, &db.sent.n)
	return []result{{
		What:   "PostgreSQL, statements of 10,000 renewals per 500",
		Value:  float64(trips) / (manyHolds / renewalsPerBatch),
		Limit:  1,
		Detail: fmt.Sprintf("%d statements in %.0f ms", trips, milliseconds(took)),
	}}
}
