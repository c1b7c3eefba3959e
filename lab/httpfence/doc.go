// Package httpfence tests package fence/httpfence with real databases, and with holders in
// processes of their own that are stopped in the middle of a request. It has tests only.
package httpfence
