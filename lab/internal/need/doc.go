// Package need checks the tools that a test needs. If a tool is missing, it skips the test, or
// fails it if HOLDFAST_REQUIRE has the name of the tool. It also installs the Python packages
// that a test needs.
package need
