module github.com/holdfast-go/holdfast/lab

go 1.26.0

replace github.com/holdfast-go/holdfast => ../

replace github.com/holdfast-go/holdfast/sqlitelock => ../sqlitelock

replace github.com/holdfast-go/holdfast/mongolock => ../mongolock

replace github.com/holdfast-go/holdfast/redislock => ../redislock

replace github.com/holdfast-go/holdfast/internal/mongokit => ../internal/mongokit

replace github.com/holdfast-go/holdfast/mongolock/compat/mongodoc => ../mongolock/compat/mongodoc

require (
	github.com/Shopify/toxiproxy/v2 v2.5.0
	github.com/anishathalye/porcupine v1.3.1
	github.com/creack/pty v1.1.24
	github.com/elastic/elastic-transport-go/v8 v8.11.0
	github.com/elastic/go-elasticsearch/v8 v8.19.7
	github.com/elastic/go-elasticsearch/v9 v9.5.2
	github.com/holdfast-go/holdfast v0.0.0
	github.com/holdfast-go/holdfast/internal/mongokit v0.0.0
	github.com/holdfast-go/holdfast/mongolock v0.0.0
	github.com/holdfast-go/holdfast/mongolock/compat/mongo-lock v0.0.0-00010101000000-000000000000
	github.com/holdfast-go/holdfast/mongolock/compat/mongodoc v0.0.0
	github.com/holdfast-go/holdfast/server v0.0.0-00010101000000-000000000000
	github.com/holdfast-go/holdfast/sqlitelock v0.0.0
	github.com/jackc/pgx/v5 v5.12.0
	github.com/opensearch-project/opensearch-go/v4 v4.8.1
	github.com/redis/go-redis/v9 v9.19.0
	github.com/rogpeppe/go-internal v1.16.0
	github.com/rs/zerolog v1.35.1
	github.com/ulikunitz/xz v0.5.17
	go.mongodb.org/mongo-driver/v2 v2.9.3
	go.uber.org/goleak v1.3.0
	go.yaml.in/yaml/v3 v3.0.5
)

require github.com/jackc/puddle/v2 v2.2.3 // indirect

require (
	github.com/beorn7/perks v1.0.1 // indirect
	github.com/cespare/xxhash/v2 v2.3.0 // indirect
	github.com/dustin/go-humanize v1.0.1 // indirect
	github.com/go-logr/logr v1.4.3 // indirect
	github.com/go-logr/stdr v1.2.2 // indirect
	github.com/golang/protobuf v1.5.2 // indirect
	github.com/google/uuid v1.6.0 // indirect
	github.com/gorilla/mux v1.8.0 // indirect
	github.com/holdfast-go/holdfast/pglock v0.0.0
	github.com/holdfast-go/holdfast/redislock v0.0.0
	github.com/jackc/pgpassfile v1.0.0 // indirect
	github.com/jackc/pgservicefile v0.0.0-20240606120523-5a60cdf6a761 // indirect
	github.com/klauspost/compress v1.19.2 // indirect
	github.com/mattn/go-colorable v0.1.14 // indirect
	github.com/mattn/go-isatty v0.0.20 // indirect
	github.com/matttproud/golang_protobuf_extensions v1.0.1 // indirect
	github.com/ncruces/go-strftime v1.0.0 // indirect
	github.com/prometheus/client_golang v1.13.0 // indirect
	github.com/prometheus/client_model v0.2.0 // indirect
	github.com/prometheus/common v0.37.0 // indirect
	github.com/prometheus/procfs v0.8.0 // indirect
	github.com/remyoudompheng/bigfft v0.0.0-20230129092748-24d4a6f8daec // indirect
	github.com/rs/xid v1.6.0 // indirect
	github.com/xdg-go/pbkdf2 v1.0.0 // indirect
	github.com/xdg-go/scram v1.2.0 // indirect
	github.com/xdg-go/stringprep v1.0.4 // indirect
	github.com/youmark/pkcs8 v0.0.0-20240726163527-a2c0da244d78 // indirect
	go.opentelemetry.io/auto/sdk v1.1.0 // indirect
	go.opentelemetry.io/otel v1.35.0 // indirect
	go.opentelemetry.io/otel/metric v1.35.0 // indirect
	go.opentelemetry.io/otel/trace v1.35.0 // indirect
	go.uber.org/atomic v1.12.0 // indirect
	golang.org/x/crypto v0.53.0 // indirect
	golang.org/x/sync v0.23.0 // indirect
	golang.org/x/sys v0.48.0
	golang.org/x/text v0.41.0 // indirect
	google.golang.org/protobuf v1.28.1 // indirect
	gopkg.in/tomb.v1 v1.0.0-20141024135613-dd632973f1e7 // indirect
	modernc.org/libc v1.74.1 // indirect
	modernc.org/mathutil v1.7.1 // indirect
	modernc.org/memory v1.11.0 // indirect
	modernc.org/sqlite v1.55.0
)

replace github.com/holdfast-go/holdfast/mongolock/compat/mongo-lock => ../mongolock/compat/mongo-lock

replace github.com/holdfast-go/holdfast/pglock => ../pglock

replace github.com/holdfast-go/holdfast/server => ../server
