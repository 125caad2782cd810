package snowflake

import (
	"context"
	"log/slog"
	"os"
	"reflect"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"
)

// keysHandler notes the message, level and keys of each record, as a row of
// docs/monitoring.md has them.
type keysHandler struct{ rows *[]string }

func (keysHandler) Enabled(context.Context, slog.Level) bool { return true }
func (h keysHandler) WithAttrs([]slog.Attr) slog.Handler     { return h }
func (h keysHandler) WithGroup(string) slog.Handler          { return h }

func (h keysHandler) Handle(_ context.Context, r slog.Record) error {
	var keys []string
	r.Attrs(func(a slog.Attr) bool {
		keys = append(keys, "`"+a.Key+"`")
		return true
	})
	row := strings.Join([]string{"| `" + r.Message + "`", r.Level.String(), strings.Join(keys, ", ")}, " | ")
	*h.rows = append(*h.rows, strings.TrimRight(row, " ")+" |")
	return nil
}

// Those who alert on log lines go by the table: it has every event, with its keys.
func TestLogEventsAreDocumented(t *testing.T) {
	doc, err := os.ReadFile("docs/monitoring.md")
	require.NoError(t, err)
	var documented []string
	for line := range strings.Lines(string(doc)) {
		if strings.HasPrefix(line, "| `snowflake: ") {
			documented = append(documented, strings.TrimSpace(line))
		}
	}

	var logged []string
	hooks := reflect.ValueOf(LogHooks(slog.New(keysHandler{&logged}))).Elem()
	for i := range hooks.NumField() {
		hook := hooks.Field(i)
		var arguments []reflect.Value
		for j := range hook.Type().NumIn() {
			argument := reflect.New(hook.Type().In(j)).Elem()
			if argument.Kind() == reflect.Pointer {
				argument.Set(reflect.New(argument.Type().Elem()))
			}
			arguments = append(arguments, argument)
		}
		if hooks.Type().Field(i).Name == "HealthChanged" {
			hook.Call([]reflect.Value{reflect.ValueOf(errCut)})
		}
		hook.Call(arguments)
	}
	require.Equal(t, documented, logged)
}
