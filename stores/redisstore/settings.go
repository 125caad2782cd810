package redisstore

import (
	"context"
	"errors"
	"fmt"
	"strings"

	"github.com/redis/go-redis/v9"
)

const failover = "and a failover may lose the last writes"

// forgets asks the server what lets it lose a write that it has acknowledged. Nothing: it
// is a single server that syncs each write to its append-only file before it answers.
func forgets(ctx context.Context, client redis.UniversalClient) (reasons []string, err error) {
	if _, ok := client.(*redis.ClusterClient); ok {
		return []string{"it is a cluster, " + failover}, nil
	}
	reasons = foundBy(client)
	info, told, err := info(ctx, client)
	if err != nil {
		return nil, err
	}
	switch {
	case told != "":
		reasons = append(reasons, told)
	case info["redis_mode"] == "sentinel":
		return nil, errors.New("the server is a Sentinel: give redis.NewFailoverClient its address")
	case info["role"] != "master":
		return nil, fmt.Errorf("the server's role is %q, must be master: a replica's records may be old", info["role"])
	default:
		if info["cluster_enabled"] != "0" {
			reasons = append(reasons, fmt.Sprintf("cluster_enabled is %q, must be 0: it is of a cluster, %s", info["cluster_enabled"], failover))
		}
		if info["connected_slaves"] != "0" {
			reasons = append(reasons, fmt.Sprintf("connected_slaves is %q, must be 0: replicas follow late, %s", info["connected_slaves"], failover))
		}
		if info["aof_rewrite_in_progress"] == "1" && info["aof_base_size"] == "0" {
			reasons = append(reasons, "the append-only file was just turned on and is not complete: wait until aof_rewrite_in_progress is 0")
		}
	}
	set, err := badSettings(ctx, client)
	return append(reasons, set...), err
}

// foundBy tells what the client's own settings say about failovers.
func foundBy(client redis.UniversalClient) []string {
	if c, ok := client.(*redis.Client); ok && c.Options().Addr == "FailoverClient" { // as go-redis names it
		return []string{"it is found through Sentinel, " + failover}
	}
	return nil
}

// settings are those that must have one value, or one that begins so.
var settings = []struct{ name, must, orBegin string }{
	{name: "appendonly", must: "yes"},
	{name: "appendfsync", must: "always"},
	// With yes nothing is synced while a background save runs, always or not.
	{name: "no-appendfsync-on-rewrite", must: "no"},
	// The others evict keys, with or without an expiry, as soon as maxmemory is set.
	{name: "maxmemory-policy", must: "noeviction", orBegin: "volatile-"},
}

func badSettings(ctx context.Context, client redis.UniversalClient) (reasons []string, err error) {
	for _, setting := range settings {
		values, err := client.ConfigGet(ctx, setting.name).Result()
		if refused := refusal(err); refused != "" {
			return append(reasons, "CONFIG GET is refused, so that nobody knows whether writes are synced: "+refused), nil
		}
		if err != nil {
			return nil, fmt.Errorf("CONFIG GET %s: %w", setting.name, err)
		}
		value, told := values[setting.name]
		switch {
		case told && value == setting.must, setting.orBegin != "" && strings.HasPrefix(value, setting.orBegin):
		case told:
			reasons = append(reasons, fmt.Sprintf("%s is %s, must be %s", setting.name, value, setting.must))
		default:
			reasons = append(reasons, fmt.Sprintf("%s is not told, must be %s", setting.name, setting.must))
		}
	}
	return reasons, nil
}

// info returns the fields of INFO, or why the server does not tell them.
func info(ctx context.Context, client redis.UniversalClient) (fields map[string]string, untold string, err error) {
	text, err := client.Info(ctx).Result()
	if refused := refusal(err); refused != "" {
		return nil, "INFO is refused, so that nobody knows whether there are replicas: " + refused, nil
	}
	if err != nil {
		return nil, "", fmt.Errorf("INFO: %w", err)
	}
	fields = make(map[string]string)
	for line := range strings.Lines(text) {
		if name, value, found := strings.Cut(strings.TrimSpace(line), ":"); found {
			fields[name] = value
		}
	}
	return fields, "", nil
}

// refusal is what the server said if it has no such command, or not for us. All else is
// an error, which may pass.
func refusal(err error) string {
	var said redis.Error
	if errors.As(err, &said) && (strings.HasPrefix(said.Error(), "NOPERM ") || strings.HasPrefix(said.Error(), "ERR ")) {
		return said.Error()
	}
	return ""
}
