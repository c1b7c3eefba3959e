// Package lab has no code of its own. Its folders have the tests that span several modules of
// Holdfast, what such tests share, and the tools behind make. Nothing below lab is released.
//
// A test of one store or of one package stands beside it, or in its folder integration. It
// belongs here if it needs several stores, real processes, or libraries that users must not
// get.
//
// Imported by tests:
//
//	engines      starts servers: MongoDB (an emulator), OpenSearch, Elasticsearch, Redis, PostgreSQL
//	proxy        puts a network with faults between a client and a server
//	faults       tests a store and Clients on connections that fail
//	linear       checks that some order of decisions explains a store's answers
//	ask          makes requests of a store and asserts its answers
//	esnode       sends requests to an Elasticsearch or OpenSearch node without a client library
//	portable     checks that commands for MongoDB are understood by all servers of its protocol
//	strange      runs servers that speak no store's protocol, and looks for secrets in errors
//	journal      is a log that a test reads while it is written
//	command      builds the command holdfast
//	thorough     marks tests that take too long for make test
//
// Tests of Holdfast as a whole:
//
//	campaign     worker processes take locks while processes, networks and servers fail
//	             (make faults); its subfolders are the parts of a campaign
//	explore      tries every order of messages of the Client's protocol, within small bounds
//	queue        many waiters for one resource: simulated Clients, and real commands
//	interop      races old programs against their drop-ins and Holdfast (make interop)
//	mutants      puts mistakes into Holdfast and requires that a test fails
//	httpfence    package fence/httpfence with real databases and processes
//	adapters     package adapt with the libraries that it adapts to
//	esclients    eslock with the official clients of Elasticsearch and OpenSearch (make clients)
//	observe      metrics and spans with the real SDKs, and the alert rules (make alerts)
//	openapi      holdfast serve against its OpenAPI document
//	browser      the dashboard in Chromium
//	recipes      runs the code of docs/recipes.md and docs/http.md
//	printed      no exported type prints a secret
//	outsider     a store outside this repository, as CONTRIBUTING.md describes it
//	install      what make packages builds, in empty roots (make packages-check)
//
// Programs:
//
//	suite        runs the tests of all modules (make test, thorough, stress)
//	engines/up   starts the servers of package engines for work by hand (make engines)
//	bench        measures Holdfast and compares it with its targets (make bench)
//	campaign/keep saves reports of campaigns for the documents (make faults-kept)
//	transcript   runs the transcripts and fills them and the examples into documents (make docs)
//	figures      draws the figures and writes the tables of documents (make docs)
//	pictures     records the terminals that documents show (make pictures)
//	modcheck     checks the go.mod files (make check-modules)
//	release      makes a release and proves it (make release, release-check)
//
// The packages in internal serve the programs and the tests here: modules lists the modules of
// the repository, need checks for tools, overlay changes source files for one build, and
// results reads and writes result files.
//
// The folders adapters, bench, browser, figures and observe are modules of their own, because
// of the libraries that they require.
package lab
