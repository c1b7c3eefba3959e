// Package lab has no code of its own. Its folders have the tests that span several modules of
// Holdfast, what such tests share, and the tools behind make. Nothing below lab is released.
//
// A test of one package is beside the package. A test of one store that needs the store's server
// is in the store's folder integration. All other tests are here: tests with several stores, with
// real processes, or with libraries that users must not get.
//
// Imported by tests:
//
//	engines        starts servers: MongoDB (an emulator), OpenSearch, Elasticsearch, Redis, PostgreSQL
//	proxy          puts a network with faults between a client and a server
//	faults         tests a store and Clients on connections that fail
//	linear         checks that some order of decisions explains a store's answers
//	ask            makes requests of a store and asserts its answers
//	esnode         sends requests to an Elasticsearch or OpenSearch node without a client library
//	portable       checks that commands for MongoDB are understood by all servers of its protocol
//	strange        runs servers that speak no store's protocol, and looks for secrets in errors
//	journal        is a log that a test reads while it is written
//	command        builds the command holdfast
//	thorough       marks tests that take too long for make test
//
// Tests of Holdfast as a whole:
//
//	campaign       kills and stops workers, networks and servers while locks are taken (make faults);
//	               its subfolders are the parts of a campaign
//	explore        tries every order of messages of the Client's protocol, within small bounds
//	queue          lets simulated Clients and real commands wait for one resource
//	interop        races old programs against their drop-ins and Holdfast (make interop)
//	mutants        puts mistakes into Holdfast and requires that a test fails
//	httpfence      tests package fence/httpfence with real databases and processes
//	adapters       tests package adapt with the libraries that it adapts to
//	esclients      tests eslock with the official clients of Elasticsearch and OpenSearch (make clients)
//	observe        tests metrics and spans with the real SDKs, and the alert rules (make alerts)
//	openapi        tests holdfast serve against its OpenAPI document
//	browser        tests the dashboard in Chromium
//	recipes        runs the code of docs/recipes.md and docs/http.md
//	printed        checks that no exported type prints a secret
//	outsider       tests a store outside this repository, as CONTRIBUTING.md describes it
//	install        tests the packages of a release in empty roots (make packages-check)
//
// Programs:
//
//	suite          runs the tests of all modules (make test, thorough, stress)
//	engines/up     starts the servers of package engines for work by hand (make engines)
//	bench          measures Holdfast and compares it with its targets (make bench)
//	campaign/keep  saves reports of campaigns for the documents (make faults-kept)
//	transcript     runs the transcripts and fills them and the examples into documents (make docs)
//	figures        draws the figures and writes the tables of documents (make docs)
//	pictures       records the terminals that documents show (make pictures)
//	modcheck       checks the go.mod files (make check-modules)
//	release        makes a release and proves it (make release, release-check)
//
// The packages in internal serve the programs and the tests here: modules lists the modules of
// the repository, need checks for tools, overlay changes source files for one build, and
// results reads and writes result files.
//
// The folders adapters, bench, browser, figures and observe are modules of their own, because
// of the libraries that they require.
package lab
