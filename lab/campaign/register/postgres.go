package register

import (
	"context"
	"errors"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgxpool"

	"github.com/holdfast-go/holdfast"
	"github.com/holdfast-go/holdfast/pglock/fence"
)

type postgresRegister struct{ pool *pgxpool.Pool }

func openPostgres(url string) (Register, error) {
	pool, err := pgxpool.New(context.Background(), url)
	if err != nil {
		return nil, err
	}
	return postgresRegister{pool}, nil
}

// PreparePostgres creates the table.
func PreparePostgres(ctx context.Context, url string, resources []string) error {
	pool, err := pgxpool.New(ctx, url)
	if err != nil {
		return err
	}
	defer pool.Close()
	if _, err := pool.Exec(ctx, "CREATE TABLE registers (resource text PRIMARY KEY, value text, fence bigint)"); err != nil {
		return err
	}
	_, err = pool.Exec(ctx, "INSERT INTO registers (resource) SELECT unnest($1::text[])", resources)
	return err
}

func (r postgresRegister) Write(ctx context.Context, resource string, token uint64, value string, fenced bool) error {
	if !fenced {
		_, err := r.pool.Exec(ctx, "UPDATE registers SET value = $2, fence = $3 WHERE resource = $1", resource, value, int64(token))
		return err
	}
	row := fence.Row{DB: r.pool, Table: pgx.Identifier{"registers"}, Key: map[string]any{"resource": resource}}
	return stale(row.Update(ctx, map[string]any{"value": value}, token))
}

func (r postgresRegister) Close() error {
	r.pool.Close()
	return nil
}

// stale converts a refusal of a fence package to ErrStale.
func stale(err error) error {
	if errors.Is(err, holdfast.ErrStale) {
		return ErrStale
	}
	return err
}
