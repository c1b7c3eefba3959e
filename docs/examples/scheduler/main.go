// Command scheduler is a worker whose job runs on one machine at a time. Start it on several
// machines with a store that all of them reach:
//
//	scheduler -store postgres://db.example.com/app
package main

import (
	"context"
	"flag"
	"log"
	"os"
	"os/signal"
	"syscall"
	"time"

	"github.com/go-co-op/gocron/v2"
	"github.com/google/uuid"

	"github.com/holdfast-go/holdfast"
	"github.com/holdfast-go/holdfast/adapt"
	_ "github.com/holdfast-go/holdfast/pglock"
	_ "github.com/holdfast-go/holdfast/sqlitelock"
)

func main() {
	store := flag.String("store", "sqlite:locks.db", "URL of the store")
	ttl := flag.Duration("ttl", 10*time.Second, "how long a killed process keeps its locks")
	every := flag.Duration("every", time.Minute, "the interval of the job")
	flag.Parse()
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt, syscall.SIGTERM)
	err := run(ctx, *store, *ttl, *every)
	stop()
	if err != nil {
		log.Fatal(err)
	}
}

func run(ctx context.Context, store string, ttl, every time.Duration) error {
	client, err := holdfast.Open(ctx, store, &holdfast.Options{TTL: ttl})
	if err != nil {
		return err
	}
	defer client.Close() // after the scheduler has ended

	// Each machine counts the interval from its own start. AtLeast prevents the others from
	// running the job again before the interval is nearly over.
	locker := adapt.NewLocker[gocron.Lock](client, &adapt.LockerOptions{Prefix: "jobs/", AtLeast: every * 8 / 10})
	scheduler, err := gocron.NewScheduler(gocron.WithDistributedLocker(locker))
	if err != nil {
		return err
	}
	_, err = scheduler.NewJob(gocron.DurationJob(every), gocron.NewTask(locker.Task("report", report)), gocron.WithName("report"),
		gocron.WithEventListeners(gocron.AfterJobRunsWithError(func(_ uuid.UUID, job string, err error) {
			log.Printf("%s failed: %v", job, err) // also if it lost its lock
		})))
	if err != nil {
		return err
	}
	scheduler.Start()
	<-ctx.Done()
	return scheduler.Shutdown()
}

// report is the job. ctx ends if its lock is lost.
func report(ctx context.Context) error {
	log.Printf("reporting, with token %d", holdfast.HoldOf(ctx).Token())
	return ctx.Err()
}
