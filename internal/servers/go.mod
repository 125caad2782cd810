module github.com/snowfence/snowflake/internal/servers

go 1.26.0
