package main

import (
	"context"
	"errors"
	"fmt"
)

// measurePostgresRenewals counts the statements of many renewals.
func measurePostgresRenewals(ctx context.Context, _ string) (_ []result, err error) {
	db, err := openPostgres(ctx)
	if err != nil {
		return nil, err
	}
	defer func() { err = errors.Join(err, db.close()) }()
	trips, took, err := renewMany(ctx, db.store, &db.sent.n)
	if err != nil {
		return nil, err
	}
	return []result{{
		What:   "PostgreSQL, statements of 10,000 renewals per 500",
		Value:  float64(trips) / (manyHolds / renewalsPerBatch),
		Limit:  1,
		Detail: fmt.Sprintf("%d statements in %.0f ms", trips, milliseconds(took)),
	}}, nil
}
