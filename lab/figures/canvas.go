package main

import (
	"bytes"
	"fmt"
	"html"
	"strings"

	"gonum.org/v1/plot"
	"gonum.org/v1/plot/font"
	"gonum.org/v1/plot/text"
	"gonum.org/v1/plot/vg"
	"gonum.org/v1/plot/vg/draw"
	"gonum.org/v1/plot/vg/vgsvg"
)

// svg draws a figure on a white card, which is readable on pages of any background colour.
func svg(name string, w, h float64, figure func(draw.Canvas)) ([]byte, error) {
	canvas := vgsvg.New(vg.Points(w), vg.Points(h))
	c := draw.New(canvas)
	c.SetColor(grey(0xff))
	c.Fill(c.Rectangle.Path())
	figure(draw.Crop(c, around, -around, around, -around))
	var b bytes.Buffer
	if _, err := canvas.WriteTo(&b); err != nil {
		return nil, err
	}
	drawn := b.String()
	// The file does not contain fonts. These have the same widths as the font that the layout
	// used, and every system has one of them.
	drawn = strings.ReplaceAll(drawn, "font-family:Liberation Sans", "font-family:Liberation Sans,Arial,Helvetica,sans-serif")
	// Screen readers read the title aloud.
	head := strings.Index(drawn, "<svg")
	if head < 0 {
		return nil, fmt.Errorf("figure %q: no element svg", name)
	}
	at := head + strings.Index(drawn[head:], ">") + 1
	return fmt.Appendf(nil, "%s\n<title>%s</title>%s", drawn[:at], html.EscapeString(name), drawn[at:]), nil
}

// letters is the style of all text in figures.
func letters(size float64) text.Style {
	return text.Style{
		Color: grey(0x22), Font: font.Font{Typeface: "Liberation", Variant: "Sans", Size: vg.Points(size)},
		Handler: plot.DefaultTextHandler,
	}
}

// style sets the fonts and lines of a plot.
func style(p *plot.Plot) {
	for _, axis := range []*plot.Axis{&p.X, &p.Y} {
		axis.Color, axis.LineStyle.Color, axis.Tick.LineStyle.Color = grey(0x22), grey(0x99), grey(0x99)
		axis.Tick.Label.Font, axis.Label.TextStyle.Font = letters(textSize).Font, letters(textSize).Font
		axis.Tick.Label.Color, axis.Label.TextStyle.Color = grey(0x22), grey(0x22)
	}
	p.Y.Tick.Length = 0
}

// title draws the title and returns the area below it.
func title(c draw.Canvas, name string) draw.Canvas {
	s := letters(textSize + 2)
	s.YAlign = draw.YTop
	c.FillText(s, vg.Point{X: c.Min.X, Y: c.Max.Y}, name)
	return draw.Crop(c, 0, 0, 0, -22)
}

// legend lists the names of the series, side by side.
type legend struct {
	names  []string
	thumbs []plot.Thumbnailer
}

func newLegend() *legend { return new(legend) }

func (l *legend) add(name string, thumb plot.Thumbnailer) {
	l.names, l.thumbs = append(l.names, name), append(l.thumbs, thumb)
}

// draw draws the legend and returns the area below it.
func (l *legend) draw(c draw.Canvas) draw.Canvas {
	const high, thumb, gap = 14, 14, 16
	s := letters(textSize - 1)
	s.YAlign = draw.YCenter
	x, y := c.Min.X, c.Max.Y
	for i, name := range l.names {
		w := vg.Points(thumb) + s.Width(name)
		if x+w > c.Max.X && x > c.Min.X {
			x, y = c.Min.X, y-vg.Points(high)
		}
		middle := y - vg.Points(high)/2
		mark := draw.Crop(c, 0, 0, 0, 0)
		mark.Rectangle = vg.Rectangle{Min: vg.Point{X: x, Y: y - vg.Points(high)}, Max: vg.Point{X: x + vg.Points(thumb), Y: y}}
		l.thumbs[i].Thumbnail(&mark)
		c.FillText(s, vg.Point{X: x + vg.Points(thumb), Y: middle}, name)
		x += w + vg.Points(gap)
	}
	return draw.Crop(c, 0, 0, 0, y-vg.Points(high)-vg.Points(around)-c.Max.Y)
}
