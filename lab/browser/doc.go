// Package browser tests the dashboard of holdfast serve in Chromium: pages that change by
// themselves, sign-in, accessibility, and a page with 10,000 holds. It also takes the pictures
// of the dashboard in docs/pictures (make pictures-browser). The package has tests only, and is
// a module of its own because of the library that controls the browser.
package browser
