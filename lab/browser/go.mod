module github.com/holdfast-go/holdfast/lab/browser

go 1.26.0

replace github.com/holdfast-go/holdfast => ../../

replace github.com/holdfast-go/holdfast/server => ../../server

require (
	github.com/chromedp/cdproto v0.159.0
	github.com/chromedp/chromedp v0.23.0
	github.com/holdfast-go/holdfast v0.0.0
	github.com/holdfast-go/holdfast/server v0.0.0
)

require (
	github.com/go-json-experiment/json v0.0.0-20260213210345-44df1a37e875 // indirect
	golang.org/x/sys v0.48.0 // indirect
	maragu.dev/gomponents v1.2.0 // indirect
)
