package main

import (
	"context"
	"fmt"
	"time"
)

// The methods copies make records of resources without holds: copies of the record of the first
// resource that was locked and unlocked.

func (db *postgresDB) copies(ctx context.Context, n int) error {
	_, err := db.pool.Exec(ctx, `INSERT INTO holdfast.locks (resource, token, touched, holds, places, watched, due)
		SELECT format('records/%s', lpad(i::text, 7, '0')), token, touched, holds, places, watched, due
		FROM holdfast.locks, generate_series(1, $1) AS i WHERE resource = 'first'`, n)
	if err == nil {
		// Otherwise the server would do so by itself during the measurement.
		_, err = db.pool.Exec(ctx, "VACUUM ANALYZE holdfast.locks")
	}
	return err
}

func (db *redisDB) copies(ctx context.Context, n int) error {
	const part = 1000
	for i := 0; i < n; i += part {
		pipe := db.client.Pipeline()
		for j := i; j < min(i+part, n); j++ {
			pipe.Copy(ctx, db.prefix+"first", fmt.Sprintf("%srecords/%07d", db.prefix, j), 0, false)
		}
		if _, err := pipe.Exec(ctx); err != nil {
			return err
		}
	}
	return nil
}

// processorTime returns the processor time of the server's processes.
func (db *postgresDB) processorTime(ctx context.Context) (time.Duration, error) {
	var backend int
	if err := db.pool.QueryRow(ctx, "SELECT pg_backend_pid()").Scan(&backend); err != nil {
		return 0, err
	}
	server, err := parentOf(backend)
	if err != nil {
		return 0, err
	}
	return processorTimeOfTree(server)
}

func (db *redisDB) processorTime(ctx context.Context) (time.Duration, error) {
	info, err := db.client.InfoMap(ctx, "server").Result()
	if err != nil {
		return 0, err
	}
	var pid int
	if _, err := fmt.Sscan(info["Server"]["process_id"], &pid); err != nil {
		return 0, fmt.Errorf("process_id of Redis: %w", err)
	}
	return processorTimeOfTree(pid)
}
