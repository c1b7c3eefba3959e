module github.com/holdfast-go/holdfast/tests

go 1.26.0

replace github.com/holdfast-go/holdfast => ../

replace github.com/holdfast-go/holdfast/sqlitelock => ../sqlitelock
