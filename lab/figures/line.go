package main

import (
	"cmp"
	"fmt"
	"slices"
	"strconv"
	"time"

	"gonum.org/v1/plot"
	"gonum.org/v1/plot/vg"
	"gonum.org/v1/plot/vg/draw"

	"github.com/holdfast-go/holdfast/lab/internal/results"
)

const (
	lineLeft  = 30
	faultHigh = 14
	laneHigh  = 44
	laneGap   = 8
)

// line draws a time line of a campaign: who held which lock when. Each resource has a lane. An
// exclusive hold fills it, and shared holds divide it. The faults are above the lanes, and
// their shadows cross them.
func line(r results.Recorded) ([]byte, error) {
	if r.Line.Ends <= 0 {
		return nil, fmt.Errorf("faults-line.json: a line that ends at %d ms", r.Line.Ends)
	}
	lasts, err := time.ParseDuration(r.Run.Lasts)
	if err != nil {
		return nil, fmt.Errorf("faults-line.json: %w", err)
	}
	// After the faults, a process of its own takes each lock once more: leave that out.
	holds := slices.DeleteFunc(slices.Clone(r.Line.Holds), func(h results.Held) bool { return h.From >= r.Line.Ends })
	lanes := lanesOf(holds)
	name := fmt.Sprintf("A campaign of %v on %s, seed %s: who holds each lock, and what fails", lasts, r.Run.Store, r.Run.Seed)
	high := 22 + float64(len(r.Line.Faults))*faultHigh + float64(len(lanes))*(laneHigh+laneGap) + 60
	return svg(name, width, high, func(c draw.Canvas) {
		c = title(c, name)
		legend := newLegend()
		for p := range processes(holds) {
			legend.add("process "+strconv.Itoa(p), filled{p})
		}
		c = legend.draw(c)
		x := func(ms int) vg.Length {
			return c.Min.X + lineLeft + (c.Max.X-c.Min.X-lineLeft)*vg.Length(min(ms, r.Line.Ends))/vg.Length(r.Line.Ends)
		}
		box := func(from, to int, top, h vg.Length) vg.Path {
			return vg.Rectangle{Min: vg.Point{X: x(from), Y: top - h}, Max: vg.Point{X: max(x(to)-0.4, x(from)+0.6), Y: top}}.Path()
		}
		foot := c.Min.Y + 16
		top := c.Max.Y
		small := letters(textSize - 2)
		small.YAlign = draw.YCenter
		for _, f := range r.Line.Faults {
			c.SetColor(grey(0xe8))
			c.Fill(box(f.From, f.To, top, top-foot))
			top -= faultHigh
		}
		top = c.Max.Y
		for _, f := range r.Line.Faults {
			c.SetColor(grey(0x66))
			c.Fill(box(f.From, f.To, top-2, faultHigh-4))
			at := vg.Point{X: x(f.To) + 4, Y: top - faultHigh/2}
			if small.XAlign = draw.XLeft; at.X+small.Width(f.Name) > c.Max.X {
				at.X, small.XAlign = x(f.From)-4, draw.XRight
			}
			c.FillText(small, at, f.Name)
			top -= faultHigh
		}
		for _, l := range lanes {
			top -= laneGap
			s := letters(textSize)
			s.YAlign = draw.YCenter
			c.FillText(s, vg.Point{X: c.Min.X, Y: top - laneHigh/2}, l.resource)
			for _, h := range l.holds {
				c.SetColor(colours[h.Process%len(colours)])
				if !h.Shared {
					c.Fill(box(h.From, h.To, top, laneHigh))
					continue
				}
				each := laneHigh / vg.Length(l.rows)
				c.Fill(box(h.From, h.To, top-each*vg.Length(h.row)-0.5, each-1))
			}
			top -= laneHigh
		}
		small.YAlign = draw.YTop
		for at := 0; at <= r.Line.Ends; at += 1000 {
			small.XAlign = draw.XCenter
			c.FillText(small, vg.Point{X: x(at), Y: foot - 3}, strconv.Itoa(at/1000)+" s")
		}
	})
}

// filled is the mark of a process in the legend.
type filled struct{ process int }

var _ plot.Thumbnailer = filled{}

// Thumbnail draws the mark.
func (f filled) Thumbnail(c *draw.Canvas) {
	c.SetColor(colours[f.process%len(colours)])
	c.Fill(draw.Crop(*c, 1, -3, 3, -3).Rectangle.Path())
}

// processes returns the number of processes, which are numbered from 0.
func processes(holds []results.Held) (n int) {
	for _, h := range holds {
		n = max(n, h.Process+1)
	}
	return n
}

// lane has the holds of one resource. Simultaneous shared holds are in different rows.
type lane struct {
	resource string
	rows     int
	holds    []placed
}

// placed is a hold with its row in the lane.
type placed struct {
	results.Held
	row int
}

func lanesOf(holds []results.Held) (lanes []lane) {
	holds = slices.SortedStableFunc(slices.Values(holds), func(a, b results.Held) int {
		return cmp.Or(cmp.Compare(a.Resource, b.Resource), cmp.Compare(a.From, b.From))
	})
	var ends []int // when the last hold of each row in the last lane ends
	for _, h := range holds {
		if len(lanes) == 0 || lanes[len(lanes)-1].resource != h.Resource {
			lanes, ends = append(lanes, lane{resource: h.Resource, rows: 1}), nil
		}
		l := &lanes[len(lanes)-1]
		row := 0
		if h.Shared {
			row = slices.IndexFunc(ends, func(end int) bool { return end <= h.From })
			if row < 0 {
				row = len(ends)
				ends = append(ends, 0)
			}
			ends[row] = h.To
			l.rows = max(l.rows, len(ends))
		}
		l.holds = append(l.holds, placed{h, row})
	}
	return lanes
}
