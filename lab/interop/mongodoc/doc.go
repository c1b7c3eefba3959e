// Package mongodoc races old programs that lock in MongoDB with recipes of their own against
// Holdfast's stores for the same documents (make interop). Only one of them may hold a document
// at a time. The package has tests only.
package mongodoc
