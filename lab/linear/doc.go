// Package linear checks that a store is linearizable: that some order of decisions explains its
// answers to concurrent requests, for each resource. It uses porcupine, and shares no code with
// package model or with a store.
package linear
