module github.com/snowfence/snowflake/bench

go 1.26.0

replace github.com/snowfence/snowflake => ../

require (
	github.com/bwmarrin/snowflake v0.3.0
	github.com/gofrs/uuid/v5 v5.5.1
	github.com/google/uuid v1.6.0
	github.com/influxdata/influxdb v1.13.2
	github.com/oklog/ulid/v2 v2.1.2
	github.com/rs/xid v1.6.0
	github.com/segmentio/ksuid v1.0.4
	github.com/snowfence/snowflake v0.0.0-00010101000000-000000000000
	github.com/sony/sonyflake v1.2.0
	go.jetify.com/typeid v1.3.0
)

require (
	github.com/aclements/go-moremath v0.0.0-20210112150236-f10218a38794 // indirect
	golang.org/x/perf v0.0.0-20260908200009-22c9c6c9d4da
)
