package bench

import (
	"context"
	"encoding/binary"
	"sync"
	"time"

	bwmarrin "github.com/bwmarrin/snowflake"
	gofrs "github.com/gofrs/uuid/v5"
	google "github.com/google/uuid"
	influx "github.com/influxdata/influxdb/pkg/snowflake"
	"github.com/oklog/ulid/v2"
	"github.com/rs/xid"
	"github.com/segmentio/ksuid"
	"github.com/snowfence/snowflake"
	"github.com/sony/sonyflake"
	"go.jetify.com/typeid"
)

// Peer is one way to make IDs.
type Peer struct {
	Name   string
	Module string // whose version is told; "": none
	Bits   int    // of an ID; 0: a floor, which makes none
	Wall   bool   // reads the wall clock for each ID, so that a step of it is seen
	Floor  bool   // not a generator, but what one cannot do without
	Ours   bool

	// How many IDs a millisecond holds. Chosen: as many as the sequence bits that
	// Open is given say. Else Limit, and 0 for those without one. Runs: at the limit
	// it does not wait but takes the next milliseconds, however far ahead.
	Chosen bool
	Limit  float64
	Runs   bool

	Note string // what to know before comparing
	Open func(sequenceBits int) (Source, error)
}

// Source is a generator at work.
type Source struct {
	// Next makes one ID and returns its first 8 bytes, which hold the time.
	Next func() (uint64, error)
	// Text makes one ID and returns all of it.
	Text func() (string, error)
	// Milli returns the millisecond since 1970 of what Next returned; nil: it is not
	// there, or not to the millisecond.
	Milli func(uint64) int64
	// Fill makes as many IDs as ids is long; nil: only one by one.
	Fill  func(ids []snowflake.ID) error
	Close func()
}

// maxWait is that of this library's generators here.
const maxWait = 4 * time.Millisecond

// Sequence bits that the workloads ask for.
const (
	WideBits  = 22 // more than a core can make in a millisecond; as many as bwmarrin/snowflake can have
	UsualBits = 12 // 4,096
	SmallBits = 7  // 128
)

// PerMilli returns how many IDs fit in a millisecond, 0 for no limit.
func (p Peer) PerMilli(sequenceBits int) float64 {
	if p.Chosen {
		return float64(int64(1) << sequenceBits)
	}
	return p.Limit
}

const (
	ours      = "snowfence (this)"
	oursAhead = "snowfence, 10 ms ahead"
	floorName = "mutex + wall clock"
)

// Peers returns the floors, this library, and its peers.
func Peers() []Peer {
	return []Peer{
		{Name: "mutex", Floor: true, Open: openMutex},
		{Name: "wall clock", Floor: true, Wall: true, Open: openWallClock},
		{Name: "time.Now", Floor: true, Wall: true, Open: openTimeNow},
		{Name: floorName, Floor: true, Wall: true, Open: openFloor},
		{
			Name: ours, Module: "github.com/snowfence/snowflake", Bits: 64, Wall: true, Ours: true, Chosen: true,
			Open: func(bits int) (Source, error) { return openOurs(bits, 0) },
		},
		{
			Name: oursAhead, Module: "github.com/snowfence/snowflake", Bits: 64, Wall: true, Ours: true, Chosen: true,
			Note: "MaxAhead: 10 ms, on a lease: a ceiling that is durable first bounds how far it runs ahead",
			Open: func(bits int) (Source, error) { return openOurs(bits, 10*time.Millisecond) },
		},
		{
			Name: "bwmarrin/snowflake", Module: "github.com/bwmarrin/snowflake", Bits: 64, Chosen: true,
			Note: "looks at the wall clock once, when it is made, and then only at the monotonic clock: it cannot see a step; at its limit it spins, holding its mutex",
			Open: openBwmarrin,
		},
		{
			Name: "sony/sonyflake", Module: "github.com/sony/sonyflake", Bits: 64, Wall: true, Limit: 25.6,
			Note: "bounded by its fixed layout at 256 IDs in 10 ms",
			Open: openSonyflake,
		},
		{
			Name: "influxdata/snowflake", Module: "github.com/influxdata/influxdb", Bits: 64, Wall: true, Limit: 4096, Runs: true,
			Note: "compare-and-swap; above 4,096 in a millisecond it runs ahead of the clock without a bound, and keeps no record of how far",
			Open: openInflux,
		},
		{
			Name: "rs/xid", Module: "github.com/rs/xid", Bits: 96, Wall: true,
			Note: "time to the second; its counter starts again after 16,777,216, also within a second",
			Open: openXID,
		},
		{
			Name: "oklog/ulid", Module: "github.com/oklog/ulid/v2", Bits: 128, Wall: true,
			Note: "Make: monotonic within a millisecond, from math/rand",
			Open: openULID,
		},
		{
			Name: "google/uuid v7", Module: "github.com/google/uuid", Bits: 128, Wall: true,
			Note: "crypto/rand for each ID",
			Open: func(int) (Source, error) { google.DisableRandPool(); return openGoogle() },
		},
		{
			Name: "google/uuid v7, pool", Module: "github.com/google/uuid", Bits: 128, Wall: true,
			Note: "EnableRandPool: random bytes wait on the heap",
			Open: func(int) (Source, error) { google.EnableRandPool(); return openGoogle() },
		},
		{
			Name: "gofrs/uuid v7", Module: "github.com/gofrs/uuid/v5", Bits: 128, Wall: true,
			Note: "crypto/rand for each ID; its time runs ahead above some 2,048 to 4,096 in a millisecond",
			Open: openGofrs,
		},
		{
			Name: "segmentio/ksuid", Module: "github.com/segmentio/ksuid", Bits: 160, Wall: true,
			Note: "time to the second; crypto/rand for each ID",
			Open: openKSUID,
		},
		{
			Name: "jetify/typeid", Module: "go.jetify.com/typeid", Bits: 128, Wall: true,
			Note: "a UUIDv7 of gofrs/uuid as a text with a prefix: makes a string for each ID",
			Open: openTypeID,
		},
	}
}

// NotServed lists generators of the field that the module proxy did not serve when
// this was written.
var NotServed = []string{
	"sony/sonyflake/v2", "godruoyi/go-snowflake", "yitter/idgenerator-go", "GUAIK-ORG/go-snowflake",
	"zheng-ji/goSnowFlake", "edwingeng/wuid", "muyo/sno",
}

func peerNamed(name string) Peer {
	for _, p := range Peers() {
		if p.Name == name {
			return p
		}
	}
	panic("bench: no peer " + name)
}

func openMutex(int) (Source, error) {
	var mu sync.Mutex
	var n uint64
	return Source{Next: func() (uint64, error) {
		mu.Lock()
		n++
		got := n
		mu.Unlock()
		return got, nil
	}}, nil
}

func openWallClock(int) (Source, error) {
	return Source{Next: func() (uint64, error) { return uint64(wallNanos()), nil }}, nil
}

func openTimeNow(int) (Source, error) {
	return Source{Next: func() (uint64, error) { return uint64(time.Now().UnixNano()), nil }}, nil
}

// openFloor does what nobody who sees the wall clock can do without.
func openFloor(int) (Source, error) {
	var mu sync.Mutex
	return Source{
		Next: func() (uint64, error) {
			mu.Lock()
			now := wallNanos()
			mu.Unlock()
			return uint64(now), nil
		},
		Milli: func(nanos uint64) int64 { return int64(nanos / 1e6) },
		Fill: func(ids []snowflake.ID) error {
			mu.Lock()
			base := snowflake.ID(wallNanos())
			mu.Unlock()
			for i := range ids {
				ids[i] = base + snowflake.ID(i)
			}
			return nil
		},
	}, nil
}

// layoutOf returns the default layout with other sequence bits.
func layoutOf(sequenceBits int) snowflake.Layout {
	layout := snowflake.DefaultLayout() // of 12
	layout.WorkerBits, layout.SequenceBits = max(20-sequenceBits, 0), sequenceBits
	layout.TimeBits = 63 - layout.RegionBits - layout.WorkerBits - layout.SequenceBits
	return layout
}

// oneRegion is layoutOf with all worker codes in one region.
func oneRegion(sequenceBits int) snowflake.Layout {
	layout := layoutOf(sequenceBits)
	layout.RegionBits, layout.WorkerBits = 0, layout.RegionBits+layout.WorkerBits
	return layout
}

func openOurs(sequenceBits int, ahead time.Duration) (Source, error) {
	ctx, layout := context.Background(), layoutOf(sequenceBits)
	cfg := snowflake.Config{Layout: layout, MaxAhead: ahead, MaxWait: maxWait}
	if ahead > 0 {
		lease, err := snowflake.AcquireLease(ctx, snowflake.NewMemoryStore(), snowflake.LeaseConfig{Layout: layout})
		if err != nil {
			return Source{}, err
		}
		cfg.Lease = lease
	} else {
		cfg.Lease, cfg.HighWater = snowflake.StaticLease(1), snowflake.NoHighWater()
	}
	g, err := snowflake.New(ctx, cfg)
	if err != nil {
		return Source{}, err
	}
	epoch, shift := layout.Epoch.UnixMilli(), 63-layout.TimeBits
	return Source{
		Next: func() (uint64, error) {
			id, err := g.Next()
			return uint64(id), err
		},
		Text: func() (string, error) {
			id, err := g.Next()
			return id.String(), err
		},
		Milli: func(id uint64) int64 { return epoch + int64(id>>shift) },
		Fill: func(ids []snowflake.ID) error {
			_, err := g.Fill(ctx, ids)
			return err
		},
		Close: func() { _ = g.Close(ctx) },
	}, nil
}

func openBwmarrin(sequenceBits int) (Source, error) {
	bwmarrin.StepBits, bwmarrin.NodeBits = uint8(sequenceBits), uint8(22-sequenceBits)
	node, err := bwmarrin.NewNode(0)
	return Source{
		Next:  func() (uint64, error) { return uint64(node.Generate()), nil },
		Text:  func() (string, error) { return node.Generate().String(), nil },
		Milli: func(id uint64) int64 { return bwmarrin.Epoch + int64(id>>22) },
	}, err
}

func openSonyflake(int) (Source, error) {
	sf, err := sonyflake.New(sonyflake.Settings{MachineID: func() (uint16, error) { return 1, nil }})
	return Source{
		Next: func() (uint64, error) { return sf.NextID() },
		Text: func() (string, error) {
			id, err := sf.NextID()
			return snowflake.ID(id).String(), err
		},
	}, err
}

func openInflux(int) (Source, error) {
	const epoch = 1491696000000
	g := influx.New(1)
	return Source{
		Next:  func() (uint64, error) { return g.Next(), nil },
		Text:  func() (string, error) { return g.NextString(), nil },
		Milli: func(id uint64) int64 { return epoch + int64(id>>22) },
	}, nil
}

func openXID(int) (Source, error) {
	return Source{
		Next: func() (uint64, error) {
			id := xid.New()
			return binary.BigEndian.Uint64(id[:]), nil
		},
		Text: func() (string, error) { return xid.New().String(), nil },
	}, nil
}

// milli48 is the time of a ULID and of a UUIDv7.
func milli48(first uint64) int64 { return int64(first >> 16) }

func openULID(int) (Source, error) {
	return Source{
		Next: func() (uint64, error) {
			id := ulid.Make()
			return binary.BigEndian.Uint64(id[:]), nil
		},
		Text:  func() (string, error) { return ulid.Make().String(), nil },
		Milli: milli48,
	}, nil
}

func openGoogle() (Source, error) {
	return Source{
		Next: func() (uint64, error) {
			id, err := google.NewV7()
			return binary.BigEndian.Uint64(id[:]), err
		},
		Text: func() (string, error) {
			id, err := google.NewV7()
			return id.String(), err
		},
		Milli: milli48,
	}, nil
}

func openGofrs(int) (Source, error) {
	return Source{
		Next: func() (uint64, error) {
			id, err := gofrs.NewV7()
			return binary.BigEndian.Uint64(id[:]), err
		},
		Text: func() (string, error) {
			id, err := gofrs.NewV7()
			return id.String(), err
		},
		Milli: milli48,
	}, nil
}

func openKSUID(int) (Source, error) {
	return Source{
		Next: func() (uint64, error) {
			id, err := ksuid.NewRandom()
			return binary.BigEndian.Uint64(id[:]), err
		},
		Text: func() (string, error) {
			id, err := ksuid.NewRandom()
			return id.String(), err
		},
	}, nil
}

func openTypeID(int) (Source, error) {
	return Source{
		Next: func() (uint64, error) {
			id, err := typeid.WithPrefix("user")
			return uint64(len(id.Suffix())), err
		},
		Text: func() (string, error) {
			id, err := typeid.WithPrefix("user")
			return id.String(), err
		},
	}, nil
}
