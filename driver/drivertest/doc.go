// Package drivertest checks whether a store keeps the contract of package driver.
//
// The test of a store calls Run twice, once normally and once with WithFaults. The package
// also helps to test code that uses stores: a FaultStore loses, delays and reorders calls,
// and Judge finds wrong answers in the history of a Recorder without knowing how stores
// decide.
package drivertest
