package main

import (
	"context"
	"encoding/gob"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"os"
	"os/exec"
	"time"
)

// fleet is the regions' processes, ready to mint.
type fleet struct {
	regions []*child
	started time.Duration // until all leases were held
}

// child is the process of one region.
type child struct {
	*exec.Cmd
	number int
	stdin  io.WriteCloser
	says   *gob.Decoder
}

// startFleet starts all regions, and returns when each worker has its lease.
func startFleet(ctx context.Context, p Plan, endpoints []string) (*fleet, error) {
	f := &fleet{}
	if err := f.start(ctx, p, endpoints); err != nil {
		f.kill()
		return nil, err
	}
	return f, nil
}

func (f *fleet) start(ctx context.Context, p Plan, endpoints []string) error {
	began := time.Now()
	for number := range p.Regions {
		c, err := startRegion(ctx, order{Plan: p, Region: number, Endpoints: endpoints})
		if err != nil {
			return err
		}
		f.regions = append(f.regions, c)
	}
	for _, c := range f.regions {
		if _, err := c.hear(); err != nil {
			return fmt.Errorf("region %d is not ready: %w", c.number, err)
		}
	}
	f.started = time.Since(began)
	return nil
}

func startRegion(ctx context.Context, o order) (*child, error) {
	self, err := os.Executable()
	if err != nil {
		return nil, err
	}
	text, err := json.Marshal(o)
	if err != nil {
		return nil, err
	}
	c := &child{Cmd: exec.CommandContext(ctx, self), number: o.Region}
	c.Env = append(os.Environ(), regionVariable+"="+string(text))
	c.Stderr = os.Stderr
	if c.stdin, err = c.StdinPipe(); err != nil {
		return nil, err
	}
	out, err := c.StdoutPipe()
	if err != nil {
		return nil, err
	}
	c.says = gob.NewDecoder(out)
	return c, c.Start()
}

// hear returns the next message.
func (c *child) hear() (m Message, err error) {
	if err := c.says.Decode(&m); err != nil {
		return m, err
	}
	if m.Error != "" {
		return m, errors.New(m.Error)
	}
	return m, nil
}

// kill ends what is left of the fleet.
func (f *fleet) kill() {
	for _, c := range f.regions {
		_ = c.Process.Kill()
		_ = c.Wait()
	}
}

// mint has all regions begin at one instant, and collects what they mint.
func (f *fleet) mint() ([]*Result, *Ledger, error) {
	begin := time.Now().Add(time.Second).Truncate(time.Second)
	results, ledgers := make([]*Result, len(f.regions)), make([]Ledger, len(f.regions))
	err := each(len(f.regions), func(i int) (err error) {
		results[i], err = f.regions[i].mint(begin, &ledgers[i])
		if err != nil {
			err = fmt.Errorf("region %d: %w", i, err)
		}
		return err
	})
	if err != nil {
		f.kill()
		return nil, nil, err
	}
	all := &Ledger{}
	for _, l := range ledgers {
		all.runs = append(all.runs, l.runs...)
	}
	return results, all, nil
}

func (c *child) mint(begin time.Time, l *Ledger) (*Result, error) {
	if err := json.NewEncoder(c.stdin).Encode(begin); err != nil {
		return nil, err
	}
	for {
		m, err := c.hear()
		if err != nil {
			return nil, err
		}
		l.runs = append(l.runs, m.Runs...)
		if m.Result != nil {
			return m.Result, c.Wait()
		}
	}
}
