module github.com/snowfence/snowflake

go 1.26
