// Package install tests the packages that make packages builds: it installs each in an empty
// root and runs holdfast there as a user without rights. Run it with make packages-check. The
// package has tests only.
package install
