// Package drivertest checks whether a store keeps the contract of package driver.
//
// A store's own test calls Run, once as it is and once WithFaults. What a test
// of anything else on top of stores needs is here too: FaultStore loses, delays
// and reorders calls, and a Log judges what was answered without knowing how
// stores decide.
package drivertest
