//go:build unix

package adapters_test

import (
	"context"
	"database/sql"
	"errors"
	"fmt"
	"testing/fstest"
	"time"

	"github.com/caddyserver/certmagic"
	"github.com/go-co-op/gocron/v2"
	"github.com/hibiken/asynq"
	"github.com/pressly/goose/v3"
	"github.com/robfig/cron/v3"

	"github.com/holdfast-go/holdfast"
	"github.com/holdfast-go/holdfast/adapt"
	"github.com/holdfast-go/holdfast/memlock"
)

func Example_gocronLocker() {
	client := holdfast.New(memlock.New(nil), nil) // or holdfast.Open(ctx, "postgres://…", nil)
	defer client.Close()
	locker := adapt.NewLocker[gocron.Lock](client, &adapt.LockerOptions{
		Prefix:  "cron/",
		AtLeast: 50 * time.Second, // of the minute: else each instance runs the job, in turn
	})
	scheduler, err := gocron.NewScheduler(gocron.WithDistributedLocker(locker))
	if err != nil {
		fmt.Println(err)
		return
	}

	done := make(chan struct{})
	report := locker.Task("report", func(ctx context.Context) error {
		defer close(done)
		fmt.Println("one instance reports, with token:", holdfast.HoldOf(ctx).Token() > 0)
		return ctx.Err() // ctx ends if the lock is lost
	})
	_, err = scheduler.NewJob(gocron.DurationJob(time.Minute), gocron.NewTask(report),
		gocron.WithName("report"), // the name of its lock
		gocron.WithStartAt(gocron.WithStartImmediately()))
	if err != nil {
		fmt.Println(err)
		return
	}
	scheduler.Start()
	<-done
	if err := scheduler.Shutdown(); err != nil { // before the Client is closed
		fmt.Println(err)
	}
	// Output: one instance reports, with token: true
}

func Example_gocronElector() {
	client := holdfast.New(memlock.New(nil), nil)
	defer client.Close()
	elector := adapt.NewElector(client, "scheduler", nil)
	scheduler, err := gocron.NewScheduler(gocron.WithDistributedElector(elector))
	if err != nil {
		fmt.Println(err)
		return
	}

	done := make(chan struct{})
	job := elector.Task(func(ctx context.Context) error {
		defer close(done)
		fmt.Println("the leader runs all jobs")
		return ctx.Err() // ctx ends if this instance no longer leads
	})
	_, err = scheduler.NewJob(gocron.DurationJob(time.Minute), gocron.NewTask(job),
		gocron.WithStartAt(gocron.WithStartImmediately()))
	if err != nil {
		fmt.Println(err)
		return
	}
	scheduler.Start()
	<-done
	if err := scheduler.Shutdown(); err != nil {
		fmt.Println(err)
	}
	// Output: the leader runs all jobs
}

func Example_cronJob() {
	ctx, cancel := context.WithCancel(context.Background())
	defer cancel()
	client := holdfast.New(memlock.New(nil), nil)
	defer client.Close()

	options := &adapt.JobOptions{
		AtLeast: 50 * time.Second,
		Report: func(err error) {
			if !errors.Is(err, holdfast.ErrHeld) { // otherwise another instance runs it
				fmt.Println(err)
			}
		},
	}
	done := make(chan struct{})
	job := adapt.Job(ctx, client, "report", options, func(ctx context.Context) {
		defer close(done)
		fmt.Println("one instance reports") // ctx ends if the lock is lost
	})
	jobs := cron.New()
	if _, err := jobs.AddFunc("@every 1s", job); err != nil {
		fmt.Println(err)
		return
	}
	jobs.Start()
	<-done
	<-jobs.Stop().Done() // before the Client is closed
	// Output: one instance reports
}

func Example_asynqScheduler() {
	ctx, cancel := context.WithCancel(context.Background()) // or signal.NotifyContext
	defer cancel()
	client := holdfast.New(memlock.New(nil), nil)
	defer client.Close()

	err := adapt.Lead(ctx, client, "scheduler", nil, func(ctx context.Context) error {
		// A Scheduler cannot be started again: each term has its own.
		scheduler := asynq.NewScheduler(asynq.RedisClientOpt{Addr: "localhost:6379"}, nil)
		if _, err := scheduler.Register("@every 1m", asynq.NewTask("report", nil)); err != nil {
			return err
		}
		if err := scheduler.Start(); err != nil {
			return err
		}
		defer scheduler.Shutdown()
		<-ctx.Done() // the lock was lost, or the program ends
		return nil
	})
	if err != nil {
		fmt.Println(err)
	}
}

func Example_lead() {
	ctx, cancel := context.WithTimeout(context.Background(), time.Minute)
	defer cancel()
	client := holdfast.New(memlock.New(nil), nil)
	defer client.Close()

	term := 0
	err := adapt.Lead(ctx, client, "consumer", nil, func(ctx context.Context) error {
		term++
		fmt.Println("term", term, "begins")
		if term == 1 {
			// An operator releases the lock by force.
			if _, err := client.Admin().ForceRelease(ctx, "consumer", holdfast.HoldID{}); err != nil {
				return err
			}
			<-ctx.Done()
			fmt.Println("lost:", errors.Is(context.Cause(ctx), holdfast.ErrLost))
			return nil
		}
		return nil // its work is done, and Lead returns
	})
	fmt.Println("error:", err)
	// Output:
	// term 1 begins
	// lost: true
	// term 2 begins
	// error: <nil>
}

func Example_certmagic() {
	client := holdfast.New(memlock.New(nil), nil)
	defer client.Close()
	locks := adapt.NewNames(client, &adapt.NamesOptions{Prefix: "tls/"})

	// Without this type, the locks of the file system and of Names would be ambiguous.
	type files struct{ certmagic.Storage }
	type storage struct {
		files
		*adapt.Names
	}
	shared := &certmagic.FileStorage{Path: "/srv/certificates"} // or any other Storage
	certmagic.Default.Storage = storage{files{shared}, locks}

	_, tries := certmagic.Default.Storage.(certmagic.TryLocker)
	_, renews := certmagic.Default.Storage.(certmagic.LockLeaseRenewer)
	fmt.Println("TryLocker:", tries, "LockLeaseRenewer:", renews)
	// Output: TryLocker: true LockLeaseRenewer: true
}

func Example_goose() {
	ctx := context.Background()
	client := holdfast.New(memlock.New(nil), nil)
	defer client.Close()
	db, err := sql.Open("sqlite", "file:app?mode=memory&cache=shared")
	if err != nil {
		fmt.Println(err)
		return
	}
	defer db.Close()
	migrations := adapt.NewMigrations(client, "migrations", nil)
	files := fstest.MapFS{"1_users.sql": {Data: []byte("-- +goose Up\nCREATE TABLE users (name text);")}} // or embed.FS
	provider, err := goose.NewProvider(goose.DialectSQLite3, db, files, goose.WithLocker(migrations))
	if err != nil {
		fmt.Println(err)
		return
	}

	err = migrations.Migrate(ctx, func(ctx context.Context) error {
		applied, err := provider.Up(ctx) // ctx ends if the lock is lost
		fmt.Println("applied:", len(applied))
		return err
	})
	if err != nil {
		fmt.Println(err)
	}
	// Output: applied: 1
}

func Example_mutex() {
	ctx, cancel := context.WithCancelCause(context.Background())
	defer cancel(nil)
	client := holdfast.New(memlock.New(nil), nil)
	defer client.Close()
	mutex := adapt.NewMutex(ctx, client, "ledger", &adapt.MutexOptions{
		OnLoss: func(err error) { cancel(err) }, // or os.Exit. Without OnLoss, Unlock panics
	})

	mutex.Lock()
	fmt.Println("one goroutine of all programs is here")
	mutex.Unlock()
	// Output: one goroutine of all programs is here
}
