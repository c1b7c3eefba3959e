// Package history records what the processes of a fault campaign observe of their locks: each
// call before it is made, and each answer when it has arrived, with the time of a clock that
// all processes of the machine share. It does not judge the events; package judge does.
package history
