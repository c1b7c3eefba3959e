// Package install tests what a release offers to install, as make packages makes it:
// each package in an empty root, as a user who is not root.
package install
