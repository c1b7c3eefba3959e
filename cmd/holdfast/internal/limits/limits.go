// Package limits ends the program if the limits of its process leave it no room: the Go runtime
// would end it later, with a long dump. To be early enough it does so in an init function, and
// imports next to nothing: packages are initialized once their imports are.
package limits
