// Package esclients tests package eslock with the official Go clients of Elasticsearch and
// OpenSearch. The clients take minutes to compile, so the tests are built only with the build
// tag officialclients: run make clients.
package esclients
