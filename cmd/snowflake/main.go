// Command snowflake plans layouts, reads and writes IDs, looks after leases, and audits
// columns of IDs.
//
//	go install github.com/snowfence/snowflake/cmd/snowflake@latest
//	snowflake --help
//
// Each command has examples in its help. The exit status is
//
//	0  done
//	1  an error, or input that could not be read was skipped
//	2  wrong usage
//	3  audit: an ID repeats
//	4  audit: something else was found; plan: the needs do not fit
package main

import (
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"os/signal"
	"strings"
	"syscall"

	"github.com/spf13/cobra"
)

func main() {
	ends := []os.Signal{os.Interrupt, syscall.SIGTERM}
	if !signal.Ignored(syscall.SIGHUP) { // as under nohup
		ends = append(ends, syscall.SIGHUP)
	}
	ctx, stop := signal.NotifyContext(context.Background(), ends...)
	context.AfterFunc(ctx, stop) // a second signal ends it at once
	status := run(ctx, os.Args[1:], os.Stdin, os.Stdout, os.Stderr)
	stop()
	os.Exit(status)
}

// The exit statuses, as documented above.
const (
	exitError  = 1
	exitUsage  = 2
	exitRepeat = 3
	exitFound  = 4
)

// exit is an error with a status of its own. Without a message nothing is printed: the
// command has said it all.
type exit struct {
	status int
	err    error
}

func (e *exit) Error() string {
	if e.err == nil {
		return fmt.Sprintf("exit status %d", e.status)
	}
	return e.err.Error()
}

func (e *exit) Unwrap() error { return e.err }

func usage(format string, args ...any) error { return &exit{exitUsage, fmt.Errorf(format, args...)} }

// tool is what all commands share.
type tool struct {
	in       io.Reader
	out, err io.Writer
	json     bool
}

func run(ctx context.Context, args []string, in io.Reader, out, errs io.Writer) int {
	t := &tool{in: in, out: out, err: errs}
	root := t.command()
	root.SetArgs(args)
	root.SetIn(in)
	root.SetOut(out)
	root.SetErr(errs)
	err := root.ExecuteContext(ctx)
	if err == nil {
		return 0
	}
	status := exitError
	if known := (*exit)(nil); errors.As(err, &known) {
		if status = known.status; known.err == nil {
			return status
		}
	} else if strings.HasPrefix(err.Error(), "unknown command") || strings.HasPrefix(err.Error(), "if any flags in the group") {
		status = exitUsage // cobra has no type for these
	}
	_, _ = fmt.Fprintln(errs, "snowflake:", strings.ReplaceAll(err.Error(), "snowflake: ", ""))
	if status == exitUsage {
		_, _ = fmt.Fprintln(errs, "Try --help for the flags, with examples.")
	}
	return status
}

func (t *tool) command() *cobra.Command {
	root := &cobra.Command{
		Use:   "snowflake",
		Short: "Plan layouts, read and write IDs, look after leases, audit columns",
		Long: `Plan layouts, read and write IDs, look after leases, audit columns.

Exit status: 0 done; 1 an error, or bad input was skipped; 2 wrong usage;
3 audit: an ID repeats; 4 audit: something else was found, or plan: it does not fit.`,
		SilenceErrors: true,
		SilenceUsage:  true,
		Args:          cobra.NoArgs,
		RunE:          func(c *cobra.Command, _ []string) error { return c.Help() },
	}
	root.PersistentFlags().BoolVar(&t.json, "json", false, "write JSON, one object a line")
	root.SetFlagErrorFunc(func(_ *cobra.Command, err error) error { return &exit{exitUsage, err} })
	root.AddCommand(t.planCommand(), t.layoutsCommand(), t.decodeCommand(), t.encodeCommand(), t.rangeCommand(),
		t.nextCommand(), t.leasesCommand(), t.auditCommand())
	return root
}

// atMost and exactly are cobra's checks, as wrong usage.
func atMost(n int) cobra.PositionalArgs  { return asUsage(cobra.MaximumNArgs(n)) }
func exactly(n int) cobra.PositionalArgs { return asUsage(cobra.ExactArgs(n)) }

func asUsage(check cobra.PositionalArgs) cobra.PositionalArgs {
	return func(c *cobra.Command, args []string) error {
		if err := check(c, args); err != nil {
			return &exit{exitUsage, err}
		}
		return nil
	}
}
