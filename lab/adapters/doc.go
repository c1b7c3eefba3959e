// Package adapters tests package adapt with the libraries that it adapts to, such as gocron,
// asynq, certmagic, goose and tusd. Most tests run two processes on a real store and kill one
// of them while it works. The package has tests only. It is a module of its own because these
// libraries require newer database drivers than the stores do.
package adapters
