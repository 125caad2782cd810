module github.com/snowfence/snowflake/proptest

go 1.26.0

require (
	github.com/snowfence/snowflake v0.0.0
	github.com/snowfence/snowflake/snowflaketest v0.0.0
	github.com/stretchr/testify v1.12.1
	pgregory.net/rapid v1.3.0
)

require (
	github.com/anishathalye/porcupine v1.3.1 // indirect
	go.yaml.in/yaml/v3 v3.0.5 // indirect
)

replace github.com/snowfence/snowflake => ../

replace github.com/snowfence/snowflake/snowflaketest => ../snowflaketest
