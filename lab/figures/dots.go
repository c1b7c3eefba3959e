package main

import (
	"image/color"
	"math"
	"strconv"

	"gonum.org/v1/plot"
	"gonum.org/v1/plot/plotter"
	"gonum.org/v1/plot/vg"
	"gonum.org/v1/plot/vg/draw"
)

const (
	width    = 640 // of all figures, in points
	rowHigh  = 22
	around   = 8
	textSize = 10
)

// dots draws the rows on a logarithmic axis: a dot for each value, and a line from the smallest
// to the largest value of a row.
func dots(d drawing, rows []row) ([]byte, error) {
	p := plot.New()
	p.X.Scale, p.X.Tick.Marker = plot.LogScale{}, plot.TickerFunc(decades)
	p.X.Label.Text = d.axis
	least, most := math.Inf(1), 0.0
	names := make([]string, len(rows))
	for i, r := range rows {
		y := float64(len(rows) - 1 - i) // the first row is at the top
		names[len(rows)-1-i] = r.name
		low, high := math.Inf(1), 0.0
		for _, v := range r.values {
			low, high = min(low, v), max(high, v)
		}
		least, most = min(least, low), max(most, high)
		span, err := plotter.NewLine(plotter.XYs{{X: low, Y: y}, {X: high, Y: y}})
		if err != nil {
			return nil, err
		}
		span.Width, span.Color = vg.Points(2), grey(0xcc)
		p.Add(span)
	}
	legend := newLegend()
	for i, name := range d.only {
		var at plotter.XYs
		for n, r := range rows {
			if v, ok := r.values[name]; ok {
				at = append(at, plotter.XY{X: v, Y: float64(len(rows) - 1 - n)})
			}
		}
		if at == nil {
			continue
		}
		s, err := plotter.NewScatter(at)
		if err != nil {
			return nil, err
		}
		s.GlyphStyle = draw.GlyphStyle{Color: colours[i], Radius: vg.Points(4), Shape: shapes[i%len(shapes)]}
		p.Add(s)
		legend.add(name, s)
	}
	p.NominalY(names...)
	p.Y.Min, p.Y.Max = -0.7, float64(len(rows))-0.3
	p.X.Min, p.X.Max = math.Pow(10, math.Floor(math.Log10(least))), math.Pow(10, math.Ceil(math.Log10(most)))
	grid := plotter.NewGrid()
	grid.Vertical.Color, grid.Horizontal.Color = grey(0xe4), grey(0xf2)
	p.Add(grid)
	style(p)
	return svg(d.title, width, float64(len(rows))*rowHigh+90, func(c draw.Canvas) {
		p.Draw(legend.draw(title(c, d.title)))
	})
}

// decades returns ticks at each power of ten.
func decades(least, most float64) (ticks []plot.Tick) {
	for e := math.Floor(math.Log10(least)); e <= math.Ceil(math.Log10(most)); e++ {
		v := math.Pow(10, e)
		ticks = append(ticks, plot.Tick{Value: v, Label: number(v)})
	}
	return ticks
}

// number formats a power of ten, with commas.
func number(v float64) string {
	text := strconv.FormatFloat(v, 'f', -1, 64)
	if v >= 1000 {
		for at := len(text) - 3; at > 0; at -= 3 {
			text = text[:at] + "," + text[at:]
		}
	}
	return text
}

func grey(level uint8) color.Color { return color.Gray{Y: level} }

// colours differ for colour-blind readers too.
var colours = []color.Color{
	color.RGBA{0x00, 0x72, 0xb2, 0xff}, color.RGBA{0xe6, 0x9f, 0x00, 0xff}, color.RGBA{0x00, 0x9e, 0x73, 0xff},
	color.RGBA{0xcc, 0x79, 0xa7, 0xff}, color.RGBA{0xd5, 0x5e, 0x00, 0xff}, color.RGBA{0x56, 0xb4, 0xe9, 0xff},
	color.RGBA{0x77, 0x77, 0x33, 0xff}, color.RGBA{0x66, 0x33, 0x99, 0xff},
}

var shapes = []draw.GlyphDrawer{
	draw.CircleGlyph{}, draw.BoxGlyph{}, draw.PyramidGlyph{}, draw.RingGlyph{}, draw.SquareGlyph{}, draw.TriangleGlyph{}, draw.CrossGlyph{},
}
