package main

import (
	"context"
	"database/sql"
	"fmt"
	"os"
	"regexp"
	"strings"

	"github.com/rogpeppe/go-internal/testscript"
)

// locker is the program lockfile of scripts: lockfile FILE locks a SQLite file until the
// program is ended.
func locker() {
	ctx := context.Background()
	db, err := sql.Open("sqlite", os.Args[1])
	if err == nil {
		db.SetMaxOpenConns(1)
		_, err = db.ExecContext(ctx, "PRAGMA busy_timeout=60000; BEGIN EXCLUSIVE")
	}
	if err != nil {
		fmt.Fprintln(os.Stderr, "lockfile:", err)
		os.Exit(1)
	}
	fmt.Println("locked")
	select {}
}

// shows RESOURCE PATTERN waits until the history of the resource matches.
func shows(ts *testscript.TestScript, _ bool, args []string) {
	matches(ts, args[1], "holdfast", "history", "--store", ts.Getenv("URL"), args[0])
}

// showsMetric TEXT waits until the metrics have it.
func showsMetric(ts *testscript.TestScript, _ bool, args []string) {
	matches(ts, regexp.QuoteMeta(args[0]), "ask", ts.Getenv("URL"), "/metrics")
}

func matches(ts *testscript.TestScript, pattern string, command ...string) {
	wanted := regexp.MustCompile(pattern)
	until(ts, strings.Join(command, " ")+" does not show "+pattern, func() bool {
		ts.Check(ts.Exec(command[0], command[1:]...))
		return wanted.MatchString(ts.ReadFile("stdout"))
	})
}
