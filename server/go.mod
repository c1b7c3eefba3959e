module github.com/holdfast-go/holdfast/server

go 1.26.0

require (
	github.com/holdfast-go/holdfast v0.0.0
	golang.org/x/sys v0.48.0
)

replace github.com/holdfast-go/holdfast => ../
