package httpfence

import (
	"errors"
	"net/http"
	"testing"

	"github.com/jackc/pgx/v5"

	"github.com/holdfast-go/holdfast"
	"github.com/holdfast-go/holdfast/fence/httpfence"
	"github.com/holdfast-go/holdfast/pglock/fence"
)

// Two instances of a service do not know of each other's requests. A service that claims the
// row of the table in the transaction of its write rejects a request that the fence let
// through, but that was overtaken in another instance.
func TestTransaction(t *testing.T) {
	db := databases["PostgreSQL"].open(t)
	table := &httpfence.Table{DB: db}
	if err := table.Create(t.Context()); err != nil {
		t.Fatal(err)
	}
	exec(t, db, `CREATE TABLE accounts (id int PRIMARY KEY, balance bigint)`)
	exec(t, db, `INSERT INTO accounts VALUES (17, 0)`)

	inside, goOn := make(chan struct{}), make(chan struct{})
	write := http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		token, _ := httpfence.TokenOf(r.Context())
		if token.Value == 5 {
			close(inside)
			<-goOn
		}
		tx, err := db.BeginTx(r.Context(), nil)
		if err != nil {
			httpfence.Refuse(w, err)
			return
		}
		defer tx.Rollback() //nolint:errcheck // after a commit it does nothing
		row := fence.Row{DB: fence.Std(tx), Table: pgx.Identifier{"holdfast_fences"}, Key: map[string]any{"resource": token.Resource}}
		if err := row.Claim(r.Context(), token.Value); err != nil {
			httpfence.Refuse(w, err)
			return
		}
		if _, err := tx.ExecContext(r.Context(), `UPDATE accounts SET balance = $1 WHERE id = 17`, int64(token.Value)); err != nil {
			t.Error(err)
		}
		if err := tx.Commit(); err != nil {
			t.Error(err)
		}
	})
	s := &spy{Newest: table}
	one, other := service(t, write, s, trusting), service(t, write, s, trusting)
	old := make(chan error)
	go func() { old <- send(t.Context(), one, s, "", 5) }()
	<-inside
	if err := send(t.Context(), other, s, "", 6); err != nil {
		t.Error(err)
	}
	close(goOn)
	if err := <-old; !errors.Is(err, holdfast.ErrStale) {
		t.Errorf("error %v", err)
	}
	var balance int64
	if err := db.QueryRowContext(t.Context(), `SELECT balance FROM accounts`).Scan(&balance); err != nil || balance != 6 {
		t.Errorf("balance %d, error %v", balance, err)
	}
}
