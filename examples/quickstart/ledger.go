//go:build unix

package main

import (
	"fmt"

	"github.com/snowfence/snowflake"
)

// ledger checks keys without trusting the database: none twice, and each inside a grant
// that its owner has reported.
type ledger struct {
	owner map[snowflake.ID]*process
	spans []span
}

// span is what one owner may use of a code.
type span struct {
	owner *process
	grant // with the highest ceiling reported
}

func newLedger() ledger { return ledger{owner: make(map[snowflake.ID]*process)} }

// grant notes a grant. A higher ceiling of the same token is the same span. A lower one
// has been overtaken on its way.
func (l *ledger) grant(p *process, g grant) {
	for i := range l.spans {
		if s := &l.spans[i]; s.owner == p && s.Code == g.Code && s.Token == g.Token {
			if g.Ceiling.After(s.Ceiling) {
				s.Ceiling = g.Ceiling
			}
			if s.Acquired.IsZero() { // later it says that a suspended lease is back
				s.Acquired = g.Acquired
			}
			return
		}
	}
	l.spans = append(l.spans, span{p, g})
}

// minted notes keys, and fails on one that should not be.
func (l *ledger) minted(p *process, ids []snowflake.ID) error {
	for _, id := range ids {
		if _, repeated := l.owner[id]; repeated {
			return fmt.Errorf("key %d was minted twice", id)
		}
		l.owner[id] = p
		parts, err := layout().Unpack(id)
		if err != nil {
			return err
		}
		code, err := layout().Code(parts.Region, parts.Worker)
		if err != nil {
			return err
		}
		inside := false
		for _, s := range l.spans {
			if s.owner == p && s.Code == code && !parts.Time.Before(s.Floor) && parts.Time.Before(s.Ceiling) {
				inside = true
			}
		}
		if !inside {
			return fmt.Errorf("key %d (code %d, %v) lies outside every grant of its owner", id, code, parts.Time)
		}
	}
	return nil
}

// lastSpan returns what p had when it was stopped or killed.
func (l *ledger) lastSpan(p *process) *span {
	g := p.grant()
	if p.paused > 0 {
		g = p.oldGrant()
	}
	for i := range l.spans {
		if s := &l.spans[i]; s.owner == p && s.Token == g.Token && s.Code == g.Code {
			return s
		}
	}
	return nil
}

// after returns the span of the code's next owner, nil if there is none.
func (l *ledger) after(p *process) *span {
	before := l.lastSpan(p)
	for i := range l.spans {
		if s := &l.spans[i]; before != nil && s.Code == before.Code && s.Token == before.Token+1 {
			return s
		}
	}
	return nil
}
