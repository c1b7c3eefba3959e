module github.com/holdfast-go/holdfast/cmd/holdfast

go 1.26.0

require github.com/holdfast-go/holdfast v0.0.0

require (
	github.com/clipperhouse/displaywidth v0.11.0
	github.com/coreos/go-systemd/v22 v22.7.0
	github.com/creack/pty v1.1.24
	github.com/gdamore/tcell/v3 v3.6.0
	github.com/holdfast-go/holdfast/mongolock v0.0.0
	github.com/holdfast-go/holdfast/mongolock/compat/mongodoc v0.0.0-00010101000000-000000000000
	github.com/holdfast-go/holdfast/pglock v0.0.0
	github.com/holdfast-go/holdfast/redislock v0.0.0
	github.com/holdfast-go/holdfast/server v0.0.0
	github.com/holdfast-go/holdfast/sqlitelock v0.0.0
	github.com/jackc/pgx/v5 v5.12.0
	github.com/redis/go-redis/v9 v9.19.0
	github.com/rogpeppe/go-internal v1.16.0
	github.com/spf13/cobra v1.10.2
	github.com/spf13/pflag v1.0.10
	go.mongodb.org/mongo-driver/v2 v2.9.3
	golang.org/x/sys v0.48.0
	golang.org/x/term v0.46.0
)

require (
	github.com/cespare/xxhash/v2 v2.3.0 // indirect
	github.com/clipperhouse/uax29/v2 v2.7.0 // indirect
	github.com/dustin/go-humanize v1.0.1 // indirect
	github.com/google/uuid v1.6.0 // indirect
	github.com/holdfast-go/holdfast/internal/mongokit v0.0.0 // indirect
	github.com/inconshreveable/mousetrap v1.1.0 // indirect
	github.com/jackc/pgpassfile v1.0.0 // indirect
	github.com/jackc/pgservicefile v0.0.0-20240606120523-5a60cdf6a761 // indirect
	github.com/jackc/puddle/v2 v2.2.3 // indirect
	github.com/klauspost/compress v1.19.2 // indirect
	github.com/lucasb-eyer/go-colorful v1.4.1 // indirect
	github.com/mattn/go-isatty v0.0.22 // indirect
	github.com/ncruces/go-strftime v1.0.0 // indirect
	github.com/remyoudompheng/bigfft v0.0.0-20230129092748-24d4a6f8daec // indirect
	github.com/xdg-go/pbkdf2 v1.0.0 // indirect
	github.com/xdg-go/scram v1.2.0 // indirect
	github.com/xdg-go/stringprep v1.0.4 // indirect
	github.com/youmark/pkcs8 v0.0.0-20240726163527-a2c0da244d78 // indirect
	go.uber.org/atomic v1.12.0 // indirect
	golang.org/x/crypto v0.53.0 // indirect
	golang.org/x/sync v0.23.0 // indirect
	golang.org/x/text v0.42.0 // indirect
	golang.org/x/tools v0.49.0 // indirect
	maragu.dev/gomponents v1.2.0 // indirect
	modernc.org/libc v1.74.1 // indirect
	modernc.org/mathutil v1.7.1 // indirect
	modernc.org/memory v1.11.0 // indirect
	modernc.org/sqlite v1.55.0 // indirect
)

replace github.com/holdfast-go/holdfast => ../../

replace github.com/holdfast-go/holdfast/internal/mongokit => ../../internal/mongokit

replace github.com/holdfast-go/holdfast/mongolock => ../../mongolock

replace github.com/holdfast-go/holdfast/redislock => ../../redislock

replace github.com/holdfast-go/holdfast/pglock => ../../pglock

replace github.com/holdfast-go/holdfast/sqlitelock => ../../sqlitelock

replace github.com/holdfast-go/holdfast/mongolock/compat/mongodoc => ../../mongolock/compat/mongodoc

replace github.com/holdfast-go/holdfast/server => ../../server
