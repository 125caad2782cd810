package main

import (
	"cmp"
	"encoding/json"
	"fmt"
	"html"
	"math"
	"slices"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/snowfence/snowflake/ops"
)

// timeline is a run: its faults, and what the dashboard shows of it.
type timeline struct {
	began, ended time.Time
	faults       []span
	panels       []panel
}

type span struct {
	name     string
	from, to time.Time
}

type panel struct {
	Title, Type string
	Targets     []target
	FieldConfig struct{ Defaults struct{ Unit string } }
}

type target struct {
	Expr, LegendFormat string
	series             []series
}

func (s *timeline) fault(name string, during func()) {
	from := time.Now()
	during()
	s.faults = append(s.faults, span{name, from, time.Now()})
}

// dashboard returns the panels of the shipped dashboard, without its headings.
func dashboard(t *testing.T) []panel {
	t.Helper()
	var file struct{ Panels []panel }
	require.NoError(t, json.Unmarshal(ops.Dashboard, &file))
	return slices.DeleteFunc(file.Panels, func(p panel) bool { return p.Type == "row" })
}

// The picture is drawn by hand, on a light ground.
const (
	width, margin = 1200.0, 20.0
	head          = 92.0
	barHeight     = 20.0
	plotHeight    = 118.0
	panelHeight   = 196.0
	columns       = 3
	nameWidth     = 190.0
)

var colors = []string{"#0969da", "#bc4c00", "#1a7f37", "#8250df", "#bf3989", "#9a6700", "#57606a"}

type drawing struct{ strings.Builder }

func (d *drawing) add(format string, args ...any) { _, _ = fmt.Fprintf(d, format+"\n", args...) }

func (d *drawing) text(x, y float64, class, anchor, text string) {
	d.add(`<text x="%.1f" y="%.1f" class="%s" text-anchor="%s">%s</text>`, x, y, class, anchor, html.EscapeString(text))
}

// draw returns the alerts above and the panels below, over the run's seconds, with the faults
// shaded.
func (s *timeline) draw() string {
	var lines []panel
	var alerts []series
	for _, p := range s.panels {
		switch p.Type {
		case "timeseries":
			if !flat(p) {
				lines = append(lines, p)
			}
		case "state-timeline":
			alerts = p.Targets[0].series
		}
	}
	slices.SortFunc(alerts, func(a, b series) int {
		return cmp.Or(cmp.Compare(a.Values[0].at(), b.Values[0].at()), strings.Compare(name(a), name(b)))
	})
	top := head + barHeight*float64(len(alerts)) + 60
	height := top + panelHeight*math.Ceil(float64(len(lines))/columns)

	d := &drawing{}
	d.add(`<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 %.0f %.0f" width="%.0f" height="%.0f" role="img" aria-label="Dashboard of a run with faults">`, width, height, width, height)
	d.add(`<style>text { font: 12px system-ui, sans-serif; fill: #1f2328 } .title { font-size: 17px; font-weight: 600 } .name { font-weight: 600 } .small { font-size: 10.5px; fill: #59636e } .grid { stroke: #d1d9e0 } .line { fill: none; stroke-width: 1.4; stroke-linejoin: round } .fault { fill: #fff1e5 } .alert { fill: #cf222e }</style>`)
	d.add(`<rect width="%.0f" height="%.0f" fill="#ffffff"/>`, width, height)
	d.text(margin, 30, "title", "start", "What the dashboard shows of four faults")
	d.text(margin, 50, "small", "start", "One generator of ops/demo, scraped by Prometheus with the shipped rules; the minutes and days of its windows are seconds here. Shaded: while the fault lasts.")

	left, right := margin+nameWidth, width-margin
	bottom := head + barHeight*float64(len(alerts))
	s.shade(d, left, right, head-6, bottom)
	s.seconds(d, left, right, head-6, bottom)
	for _, f := range s.faults {
		d.text((s.x(f.from, left, right)+s.x(f.to, left, right))/2, head-12, "small", "middle", f.name)
	}
	for i, alert := range alerts {
		y := head + barHeight*float64(i)
		d.text(left-10, y+13, "", "end", strings.TrimPrefix(name(alert), "Snowflake"))
		d.add(`<line x1="%.1f" y1="%.1f" x2="%.1f" y2="%.1f" class="grid"/>`, left, y+barHeight, right, y+barHeight)
		for _, bar := range bars(alert.Values) {
			x1, x2 := s.scale(bar[0], left, right), s.scale(bar[1]+0.5, left, right)
			d.add(`<rect x="%.1f" y="%.1f" width="%.1f" height="11" rx="2" class="alert"/>`, x1, y+4, x2-x1)
		}
	}

	cell := (width - 2*margin) / columns
	for i, p := range lines {
		x, y := margin+cell*float64(i%columns), top+panelHeight*float64(i/columns)
		s.plot(d, p, x, y, cell-24)
	}
	d.add(`</svg>`)
	return d.String()
}

func name(alert series) string { return alert.Metric["alertname"] }

// flat says that nothing has happened in a panel.
func flat(p panel) bool {
	for _, query := range p.Targets {
		for _, line := range query.series {
			for _, point := range line.Values {
				if v := point.value(); v != 0 && !math.IsNaN(v) {
					return false
				}
			}
		}
	}
	return true
}

// bars joins points that follow each other.
func bars(points []point) [][2]float64 {
	var all [][2]float64
	for _, p := range points {
		if n := len(all); n > 0 && p.at()-all[n-1][1] < 0.75 {
			all[n-1][1] = p.at()
			continue
		}
		all = append(all, [2]float64{p.at(), p.at()})
	}
	return all
}

// scale returns where a time, in seconds since 1970, lies between left and right.
func (s *timeline) scale(at, left, right float64) float64 {
	began, ended := float64(s.began.UnixMilli())/1e3, float64(s.ended.UnixMilli())/1e3
	return left + (right-left)*min(max((at-began)/(ended-began), 0), 1)
}

func (s *timeline) x(at time.Time, left, right float64) float64 {
	return s.scale(float64(at.UnixMilli())/1e3, left, right)
}

func (s *timeline) shade(d *drawing, left, right, top, bottom float64) {
	for _, f := range s.faults {
		x1, x2 := s.x(f.from, left, right), s.x(f.to, left, right)
		d.add(`<rect x="%.1f" y="%.1f" width="%.1f" height="%.1f" class="fault"/>`, x1, top, x2-x1, bottom-top)
	}
}

// seconds draws the scale of time.
func (s *timeline) seconds(d *drawing, left, right, top, bottom float64) {
	for at := 0; at <= int(s.ended.Sub(s.began).Seconds()); at += 10 {
		x := s.x(s.began.Add(time.Duration(at)*time.Second), left, right)
		d.add(`<line x1="%.1f" y1="%.1f" x2="%.1f" y2="%.1f" class="grid"/>`, x, top, x, bottom)
		d.text(x, bottom+14, "small", "middle", strconv.Itoa(at)+" s")
	}
}

// plot draws one panel: its lines, scale and legend.
func (s *timeline) plot(d *drawing, p panel, x, y, w float64) {
	left, right, top := x+50, x+w, y+14
	bottom := top + plotHeight
	d.text(x, y+2, "name", "start", p.Title)
	most := 0.0
	for _, query := range p.Targets {
		for _, line := range query.series {
			for _, point := range line.Values {
				if v := point.value(); !math.IsInf(v, 0) && !math.IsNaN(v) {
					most = max(most, v)
				}
			}
		}
	}
	most = ceiling(most)
	s.shade(d, left, right, top, bottom)
	s.seconds(d, left, right, top, bottom)
	for _, share := range []float64{0, 0.5, 1} {
		at := bottom - (bottom-top)*share
		d.add(`<line x1="%.1f" y1="%.1f" x2="%.1f" y2="%.1f" class="grid"/>`, left, at, right, at)
		d.text(left-6, at+4, "small", "end", amount(most*share, p.FieldConfig.Defaults.Unit))
	}
	legend, n := x, 0
	var drawn []series
	for _, query := range p.Targets {
		for _, line := range query.series {
			if len(p.Targets)+len(query.series) > 2 && flat(panel{Targets: []target{{series: []series{line}}}}) {
				continue
			}
			same := func(other series) bool { return slices.Equal(other.Values, line.Values) }
			if slices.ContainsFunc(drawn, same) { // the windows of the budget are one here
				continue
			}
			drawn = append(drawn, line)
			color := colors[n%len(colors)]
			n++
			s.line(d, line.Values, color, left, right, top, bottom, most)
			text := label(query.LegendFormat, line.Metric)
			d.add(`<line x1="%.1f" y1="%.1f" x2="%.1f" y2="%.1f" class="line" stroke="%s"/>`, legend, bottom+30, legend+14, bottom+30, color)
			d.text(legend+18, bottom+34, "small", "start", text)
			legend += 34 + 5.8*float64(len(text))
		}
	}
}

// line draws the runs of points that have no gap.
func (s *timeline) line(d *drawing, points []point, color string, left, right, top, bottom, most float64) {
	var run []string
	last := 0.0
	flush := func() {
		if len(run) > 0 {
			d.add(`<polyline class="line" stroke="%s" points="%s"/>`, color, strings.Join(run, " "))
		}
		run = nil
	}
	for _, p := range points {
		v := p.value()
		if math.IsNaN(v) || p.at()-last > 0.75 {
			flush()
		}
		last = p.at()
		if !math.IsNaN(v) {
			run = append(run, fmt.Sprintf("%.1f,%.1f", s.scale(p.at(), left, right), bottom-(bottom-top)*min(max(v/most, 0), 1)))
		}
	}
	flush()
}

// label fills in a legend as Grafana does.
func label(format string, metric map[string]string) string {
	for name, value := range metric {
		if name == "instance" {
			value = "demo"
		}
		format = strings.ReplaceAll(format, "{{"+name+"}}", value)
	}
	return format
}

// ceiling returns the next round number.
func ceiling(v float64) float64 {
	if v <= 0 {
		return 1
	}
	unit := math.Pow(10, math.Floor(math.Log10(v)))
	for _, step := range []float64{1, 2, 5, 10} {
		if v <= step*unit {
			return step * unit
		}
	}
	return v
}

func amount(v float64, unit string) string {
	switch {
	case unit == "percentunit":
		return strconv.FormatFloat(v*100, 'g', 3, 64) + " %"
	case unit == "s" && v != 0 && v < 1:
		return strconv.FormatFloat(v*1e3, 'g', 3, 64) + " ms"
	case unit == "ms" && v >= 1000:
		return amount(v/1e3, "s")
	case unit == "s" || unit == "ms":
		return strconv.FormatFloat(v, 'g', 4, 64) + " " + unit
	case v >= 10_000:
		return strconv.FormatFloat(v/1000, 'g', 4, 64) + "k"
	}
	return strconv.FormatFloat(v, 'g', 4, 64)
}
