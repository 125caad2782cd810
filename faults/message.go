package faults

import (
	"time"

	"github.com/snowfence/snowflake"
)

// Message is what a worker prints, as JSON, one a line.
type Message struct {
	Acquired *Grant `json:",omitempty"` // it has a code, and a generator on it
	// Runs are IDs that were minted under Grant: each a first one and how many follow it
	// without a gap.
	Runs  [][2]int64 `json:",omitempty"`
	Grant *Grant     `json:",omitempty"`
	// Refused is why it could not mint, or not acquire a code.
	Refused string `json:",omitempty"`
	Closed  bool   `json:",omitempty"` // it has given its code back
}

// Grant is a snowflake.Grant on its way through a pipe.
type Grant struct {
	Code           int
	Token          uint64
	Floor, Ceiling time.Time
}

// granted returns what the ledger compares with.
func (g Grant) granted() snowflake.Grant {
	return snowflake.Grant{Code: g.Code, Token: g.Token, Floor: g.Floor, Ceiling: g.Ceiling}
}

// Plan is what a worker is told to do, as JSON in the environment variable PlanEnv.
type Plan struct {
	Store      Store
	Region     int
	WorkerBits int // of the layout: 2 to the power of it codes
	Owner      string

	TTL, Renew, Settle, MaxClockSkew time.Duration

	Offset time.Duration // of its wall clock from the machine's
	Step   time.Duration // by which its wall clock steps, forth and back in turns,
	Every  time.Duration // that often,
	Steps  int           // so many times

	Batch int           // so many IDs
	Pace  time.Duration // that often
}

// PlanEnv names the environment variable.
const PlanEnv = "SNOWFLAKE_FAULTS_PLAN"

// Layout returns the layout of a plan: with few codes there are sooner none left.
func (p Plan) Layout() snowflake.Layout {
	layout := snowflake.DefaultLayout()
	layout.SequenceBits += layout.WorkerBits - p.WorkerBits
	layout.WorkerBits = p.WorkerBits
	return layout
}
