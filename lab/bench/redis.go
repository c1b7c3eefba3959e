package main

import (
	"context"
	"errors"
	"net/url"
	"strings"
	"sync"
	"sync/atomic"
	"time"

	"github.com/redis/go-redis/v9"

	"github.com/holdfast-go/holdfast"
	"github.com/holdfast-go/holdfast/driver"
	"github.com/holdfast-go/holdfast/lab/engines"
	"github.com/holdfast-go/holdfast/redislock"
)

// redisDB is a part of the keys of the server that the tests use, with a Client that locks
// there.
type redisDB struct {
	prefix string
	url    string // the store's URL
	client *redis.Client
	store  driver.Store
	locks  *holdfast.Client
	trips  *tripCounter
}

// openRedis opens a store by its URL, and locks once, so that the server has the scripts. The
// other client is for the programs that the store is compared with.
func openRedis(ctx context.Context) *redisDB {
	return redisOf(ctx, func(storeURL, _ string, _ *redis.Client) driver.Store {
		return must(driver.Open(ctx, storeURL))
	})
}

// openCountedRedis opens a store on the client, whose round trips are counted.
func openCountedRedis(ctx context.Context) *redisDB {
	return redisOf(ctx, func(_, prefix string, client *redis.Client) driver.Store {
		return redislock.New(client, &redislock.Options{Prefix: prefix})
	})
}

func redisOf(ctx context.Context, open func(storeURL, prefix string, client *redis.Client) driver.Store) *redisDB {
	engine := must(engines.StartRedis(ctx))
	o := must(redis.ParseURL(engine.URL))
	db := &redisDB{prefix: engines.Name() + ":", client: redis.NewClient(o), trips: &tripCounter{}}
	u := must(url.Parse(engine.URL))
	query := u.Query()
	query.Set("prefix", db.prefix)
	u.RawQuery = query.Encode()
	db.url = u.String()
	db.store = open(db.url, db.prefix, db.client)
	db.locks = holdfast.New(db.store, nil)
	defer undo(db.close)
	check(lockAndUnlock(ctx, db.locks, "first"))
	return db
}

// close deletes the keys.
func (db *redisDB) close() error {
	ctx, cancel := context.WithTimeout(context.Background(), time.Minute)
	defer cancel()
	err := errors.Join(db.locks.Close(), db.store.Close())
	return errors.Join(err, db.unlink(ctx), db.client.Close())
}

// unlink removes all keys. A million of them one by one would take minutes.
func (db *redisDB) unlink(ctx context.Context) error {
	for cursor := uint64(0); ; {
		keys, next, err := db.client.Scan(ctx, cursor, db.prefix+"*", 1000).Result()
		if err != nil {
			return err
		}
		if len(keys) > 0 {
			if err := db.client.Unlink(ctx, keys...).Err(); err != nil {
				return err
			}
		}
		if cursor = next; cursor == 0 {
			return nil
		}
	}
}

// tripCounter counts the round trips of scripts, and keeps their arguments. It does not count
// the commands at the start of a connection.
type tripCounter struct {
	n    atomic.Int64
	mu   sync.Mutex
	args [][]any
}

func (c *tripCounter) note(cmds ...redis.Cmder) {
	if !strings.HasPrefix(cmds[0].Name(), "eval") {
		return
	}
	c.n.Add(1)
	c.mu.Lock()
	defer c.mu.Unlock()
	for _, cmd := range cmds {
		c.args = append(c.args, cmd.Args())
	}
}

// DialHook implements redis.Hook.
func (c *tripCounter) DialHook(next redis.DialHook) redis.DialHook { return next }

// ProcessHook implements redis.Hook.
func (c *tripCounter) ProcessHook(next redis.ProcessHook) redis.ProcessHook {
	return func(ctx context.Context, cmd redis.Cmder) error {
		c.note(cmd)
		return next(ctx, cmd)
	}
}

// ProcessPipelineHook implements redis.Hook.
func (c *tripCounter) ProcessPipelineHook(next redis.ProcessPipelineHook) redis.ProcessPipelineHook {
	return func(ctx context.Context, cmds []redis.Cmder) error {
		c.note(cmds...)
		return next(ctx, cmds)
	}
}
