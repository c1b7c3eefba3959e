module github.com/holdfast-go/holdfast/lab/figures

go 1.26.0

require (
	github.com/holdfast-go/holdfast/lab v0.0.0
	gonum.org/v1/plot v0.17.0
)

require (
	codeberg.org/go-fonts/liberation v0.5.0 // indirect
	codeberg.org/go-latex/latex v0.2.0 // indirect
	codeberg.org/go-pdf/fpdf v0.11.1 // indirect
	git.sr.ht/~sbinet/gg v0.7.0 // indirect
	github.com/ajstarks/svgo v0.0.0-20211024235047-1546f124cd8b // indirect
	github.com/golang/freetype v0.0.0-20170609003504-e2365dfdc4a0 // indirect
	golang.org/x/image v0.30.0 // indirect
	golang.org/x/text v0.41.0 // indirect
)

replace github.com/holdfast-go/holdfast => ../../

replace github.com/holdfast-go/holdfast/sqlitelock => ../../sqlitelock

replace github.com/holdfast-go/holdfast/mongolock => ../../mongolock

replace github.com/holdfast-go/holdfast/redislock => ../../redislock

replace github.com/holdfast-go/holdfast/pglock => ../../pglock

replace github.com/holdfast-go/holdfast/internal/mongokit => ../../internal/mongokit

replace github.com/holdfast-go/holdfast/mongolock/compat/mongodoc => ../../mongolock/compat/mongodoc

replace github.com/holdfast-go/holdfast/mongolock/compat/mongo-lock => ../../mongolock/compat/mongo-lock

replace github.com/holdfast-go/holdfast/lab => ../

replace github.com/holdfast-go/holdfast/server => ../../server
