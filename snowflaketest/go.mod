module github.com/snowfence/snowflake/snowflaketest

go 1.26

require (
	github.com/anishathalye/porcupine v1.3.1
	github.com/snowfence/snowflake v0.0.0
	github.com/stretchr/testify v1.12.1
)

require go.yaml.in/yaml/v3 v3.0.5 // indirect

replace github.com/snowfence/snowflake => ../
