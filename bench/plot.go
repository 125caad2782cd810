package bench

import (
	"fmt"
	"html"
	"math"
	"slices"
	"strconv"
	"strings"
)

// The plots are drawn by hand, for light and dark.

// styles need no custom properties, which some viewers do not know.
func styles() string {
	light := []string{"#0969da", "#bc4c00", "#1a7f37", "#8250df", "#bf3989", "#9a6700", "#57606a", "#0e7490"}
	dark := []string{"#58a6ff", "#f0883e", "#56d364", "#bc8cff", "#ff7bac", "#e3b341", "#9ea7b3", "#39c5cf"}
	theme := func(ink, paper, faint, grid string, colors []string) string {
		text := fmt.Sprintf("text { fill: %s } .paper { fill: %s } .small { fill: %s } .grid { stroke: %s }\n", ink, paper, faint, grid)
		rules := []string{text}
		for i, c := range colors {
			rules = append(rules, fmt.Sprintf(".line.s%d, .whisker.s%d { stroke: %s } .mark.s%d { fill: %s }\n", i, i, c, i, c))
		}
		return strings.Join(rules, "")
	}
	return "<style>\ntext { font: 13px system-ui, sans-serif } .title { font-size: 15px; font-weight: 600 } .small { font-size: 11px } .ours { font-weight: 700 }\n" +
		".line { fill: none; stroke-width: 1.5; stroke-linejoin: round } .thick { stroke-width: 3 } .floor { stroke-dasharray: 5 4 } .whisker { stroke-width: 2 }\n" +
		theme("#1f2328", "#ffffff", "#59636e", "#d1d9e0", light) +
		"@media (prefers-color-scheme: dark) {\n" + theme("#e6edf3", "#0d1117", "#9198a1", "#30363d", dark) + "}\n</style>\n"
}

// drawing collects SVG.
type drawing struct{ svg strings.Builder }

func (d *drawing) printf(format string, args ...any) { _, _ = fmt.Fprintf(&d.svg, format, args...) }

func draw(width, height float64, title, subtitle string) *drawing {
	d := &drawing{}
	d.printf(`<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 %.0f %.0f" width="%.0f" height="%.0f" role="img" aria-label="%s">`+"\n",
		width, height, width, height, html.EscapeString(title))
	d.printf("%s", styles())
	d.printf(`<rect class="paper" width="%.0f" height="%.0f" rx="6"/>`+"\n", width, height)
	d.text(16, 26, "title", "start", title)
	d.text(16, 44, "small", "start", subtitle)
	return d
}

func (d *drawing) text(x, y float64, class, anchor, text string) {
	d.printf(`<text x="%.1f" y="%.1f" class="%s" text-anchor="%s">%s</text>`+"\n", x, y, class, anchor, html.EscapeString(text))
}

func (d *drawing) line(x1, y1, x2, y2 float64, class string) {
	d.printf(`<line x1="%.1f" y1="%.1f" x2="%.1f" y2="%.1f" class="%s"/>`+"\n", x1, y1, x2, y2, class)
}

func (d *drawing) done() string { return d.svg.String() + "</svg>\n" }

func nameClass(p Peer) string {
	if p.Ours {
		return "ours"
	}
	return ""
}

// color is 0 for ours, 6 for floors.
func color(p Peer, other string) string {
	switch {
	case p.Ours:
		return "s0"
	case p.Floor:
		return "s6"
	}
	return other
}

// Plots returns the plots by the names of their files.
func (r *Results) Plots() map[string]string {
	return map[string]string{
		"bench-cost.svg": r.plotCost(), "bench-latency.svg": r.plotLatency(), "bench-saturated.svg": r.plotSaturated(),
	}
}

const (
	plotWidth = 800.0
	left      = 205.0
	rowHeight = 24.0
	top       = 66.0
)

// plotCost draws medians and intervals on a logarithmic scale.
func (r *Results) plotCost() string {
	unit := r.costUnit()
	subjects := r.subjects(cost, unit)
	bottom := top + rowHeight*float64(len(subjects))
	d := draw(plotWidth, bottom+34, "Cost of an ID", "CPU nanoseconds, one goroutine, logarithmic; grey: no generators, what one cannot do without; less is better")
	const low, high, right = 8.0, 2000.0, plotWidth - 70
	x := func(v float64) float64 {
		v = min(max(v, low), high)
		return left + (right-left)*math.Log(v/low)/math.Log(high/low)
	}
	for _, tick := range []float64{10, 20, 50, 100, 200, 500, 1000, 2000} {
		d.line(x(tick), top-8, x(tick), bottom, "grid")
		d.text(x(tick), bottom+18, "small", "middle", grouped(int64(tick)))
	}
	for i, s := range subjects {
		y, v, class := top+rowHeight*(float64(i)+0.5), r.span(cost, s.Name, unit), color(s, "s1")
		d.text(left-12, y+4, nameClass(s), "end", s.Name)
		d.line(x(v.low), y, x(v.high), y, "whisker "+class)
		d.printf(`<circle cx="%.1f" cy="%.1f" r="5" class="mark %s"/>`+"\n", x(v.mid), y, class)
		d.text(x(v.high)+10, y+4, nameClass(s), "start", number(v.mid))
	}
	return d.done()
}

// plotSaturated draws bars of cores.
func (r *Results) plotSaturated() string {
	type bar struct {
		peer    Peer
		work    string
		callers string
	}
	var bars []bar
	for _, at := range [][2]string{{saturated1, "1 caller"}, {saturated64, "64 callers"}} {
		for _, s := range r.subjects(at[0], "") {
			bars = append(bars, bar{s, at[0], at[1]})
		}
	}
	most := 1.0
	for _, b := range bars {
		most = max(most, r.span(b.work, b.peer.Name, "cores").high)
	}
	const right, start = plotWidth - 240, left + 80
	bottom := top + rowHeight*float64(len(bars))
	d := draw(plotWidth, bottom+34, "CPU at saturation", "cores that the process used while callers asked without a pause, and the share of the layout's limit they got; less CPU is better")
	x := func(v float64) float64 { return start + (right-start)*v/most }
	for tick := 0.0; tick <= most; tick += 0.5 {
		d.line(x(tick), top-8, x(tick), bottom, "grid")
		d.text(x(tick), bottom+18, "small", "middle", fmt.Sprintf("%.1f", tick))
	}
	for i, b := range bars {
		y := top + rowHeight*(float64(i)+0.5)
		cores, share := r.span(b.work, b.peer.Name, "cores"), r.span(b.work, b.peer.Name, "%limit")
		d.text(start-12, y+4, nameClass(b.peer), "end", b.peer.Name+", "+b.callers)
		d.printf(`<rect x="%.1f" y="%.1f" width="%.1f" height="14" rx="2" class="mark %s"/>`+"\n", start, y-7, x(cores.mid)-start, color(b.peer, "s1"))
		note := fmt.Sprintf("%.2f cores, %.1f %%", cores.mid, share.mid)
		if b.peer.Runs {
			note += ", runs ahead"
		}
		d.text(x(cores.mid)+8, y+4, nameClass(b.peer), "start", note)
	}
	return d.done()
}

// plotLatency draws latency against percentile: each step to the right is a tenth of
// the calls before it.
func (r *Results) plotLatency() string {
	subjects := r.subjects(burst, "p99-ns")
	const right, bottom, nines = plotWidth - 200, 420.0, 6.0
	d := draw(plotWidth, bottom+50, "Latency of a call, "+grouped(burstSize)+" in each millisecond",
		"nanoseconds, with one reading of the clock, against percentile; both logarithmic; less is better")
	const low, high = 20.0, 1e7
	x := func(n float64) float64 { return 70 + (right-70)*n/nines }
	y := func(v float64) float64 {
		return bottom - (bottom-top)*math.Log(min(max(v, low), high)/low)/math.Log(high/low)
	}
	for i, name := range []string{"0", "90 %", "99 %", "99.9 %", "99.99 %", "99.999 %", "99.9999 %"} {
		d.line(x(float64(i)), top, x(float64(i)), bottom, "grid")
		d.text(x(float64(i)), bottom+18, "small", "middle", name)
	}
	for _, tick := range []struct {
		v    float64
		name string
	}{{100, "100 ns"}, {1e3, "1 µs"}, {1e4, "10 µs"}, {1e5, "100 µs"}, {1e6, "1 ms"}, {1e7, "10 ms"}} {
		d.line(70, y(tick.v), right, y(tick.v), "grid")
		d.text(62, y(tick.v)+4, "small", "end", tick.name)
	}
	palette := []string{"s1", "s2", "s3", "s4", "s5", "s7"}
	others := 0
	slices.SortStableFunc(subjects, func(a, b Peer) int { // ours is drawn last, on top
		return strings.Compare(strconv.FormatBool(a.Ours), strconv.FormatBool(b.Ours))
	})
	for i, s := range subjects {
		class, dash := color(s, palette[others%len(palette)]), ""
		if s.Floor || others >= len(palette) {
			dash = " floor"
		}
		if !s.Ours && !s.Floor {
			others++
		}
		if s.Ours {
			dash = " thick"
		}
		var points []string
		for n := 0.0; n <= nines+1e-9; n += 0.05 {
			v := r.calls[s.Name].Quantile(1 - math.Pow(10, -n))
			points = append(points, fmt.Sprintf("%.1f,%.1f", x(n), y(float64(v))))
		}
		d.printf(`<polyline class="line %s%s" points="%s"/>`+"\n", class, dash, strings.Join(points, " "))
		at := top + 10 + rowHeight*float64(len(subjects)-1-i)
		d.line(right+14, at, right+38, at, "line "+class+dash)
		d.text(right+44, at+4, nameClass(s), "start", s.Name)
	}
	return d.done()
}
