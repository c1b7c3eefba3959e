package dashboard

import (
	"fmt"
	"math"
	"slices"
	"strconv"
	"time"

	"maragu.dev/gomponents"
	"maragu.dev/gomponents/html"

	"github.com/holdfast-go/holdfast/server/fit"
	"github.com/holdfast-go/holdfast/server/latency"
	"github.com/holdfast-go/holdfast/server/words"
)

// opNames are the operations for people, in the order in which a page has them.
var opNames = [...]struct{ op, name string }{
	{"acquire", "Acquire"}, {"renew", "Renew"}, {"release", "Release"}, {"list", "List holds"}, {"waiters", "List waiters"},
	{"watch", "Subscribe to wake-ups"}, {"sweep", "Sweep"}, {"init", "Prepare"},
}

func opRank(op string) int {
	return slices.IndexFunc(opNames[:], func(o struct{ op, name string }) bool { return o.op == op })
}

func opName(op string) string {
	if i := opRank(op); i >= 0 {
		return opNames[i].name
	}
	return op
}

// lengthText says how long something took that is over, in two digits at least, and rounded: a
// hold that ended by its TTL is shown so, whatever the clocks lack.
func lengthText(d time.Duration) string {
	ms := float64(d) / float64(time.Millisecond)
	switch {
	case d < 100*time.Microsecond:
		return "under 0.1 ms"
	case d < 9950*time.Microsecond: // what is rounded up to 10 ms is written so
		return fmt.Sprintf("%.1f ms", ms)
	case d < 999500*time.Microsecond:
		return fmt.Sprintf("%.0f ms", ms)
	case d < 9950*time.Millisecond:
		return fmt.Sprintf("%.1f s", ms/1000)
	}
	return words.Duration(d.Round(time.Second))
}

// within says a time that others did not exceed.
func within(d time.Duration) string { return lengthText(max(d, lowest)) }

// answers shows how the store has answered lately, and what was seen of it.
func (d *Dashboard) answers(ops []latency.Op, seen []fit.Finding) node {
	whose := "These are the calls of this server, in the last quarter of an hour."
	if d.ownCalls {
		whose = "These are the looks of this page, in the last quarter of an hour: it does not see what programs ask the store."
	}
	charts := group(
		html.P(class("more"), text(whose+" A column is half a minute: dark up to where half of the calls were answered, light up to where 99 of 100 were, "+
			"and with a cross on top if some got no answer.")),
		html.Ul(class("answers"), each(ops, opCard)),
	)
	if len(ops) == 0 {
		charts = empty(text("Nobody has asked the store anything in the last quarter of an hour."))
	}
	return section("answers", text("How it answers"), when(len(seen) > 0, func() node { return findingTable("What was seen", seen) }), charts)
}

func opCard(o latency.Op) node {
	return html.Li(html.Data("key", "op-"+o.Name),
		html.H3(text(opName(o.Name))),
		chart(o),
		html.Dl(class("facts"),
			fact("Half within", text(within(o.Half))), fact("99 of 100 within", text(within(o.Most))), fact("Slowest", text(lengthText(o.Slowest))),
			fact("Calls", html.Span(class("number"), text(strconv.Itoa(o.Calls)))),
			when(o.Failed > 0, func() node { return fact("Without an answer", html.B(class("error"), text(strconv.Itoa(o.Failed)))) }),
		),
	)
}

// The chart's measures. Its scale is logarithmic, from lowest on, a decade is as high as
// another, and all charts have the same one: so they compare.
const (
	chartLeft, chartRight = 40, 298
	chartTop, chartBottom = 10, 70
	decades               = 5
	lowest                = 100 * time.Microsecond
	columnWidth           = float64(chartRight-chartLeft) / latency.Slots
)

// height returns how high a time stands over the bottom.
func height(d time.Duration) float64 {
	part := math.Log10(float64(max(d, lowest))/float64(lowest)) / decades
	return max(min(part, 1)*(chartBottom-chartTop), 1) // what was very quick is seen, too
}

func chart(o latency.Op) node {
	label := fmt.Sprintf("%s over 15 minutes: half within %s, 99 of 100 within %s, %d of %d without an answer",
		opName(o.Name), within(o.Half), within(o.Most), o.Failed, o.Calls)
	var parts []node
	for _, line := range []time.Duration{time.Millisecond, 10 * time.Millisecond, 100 * time.Millisecond, time.Second} {
		y := chartBottom - height(line)
		parts = append(parts,
			svg("line", nil, "x1", chartLeft, "x2", chartRight, "y1", y, "y2", y),
			svgText(chartLeft-4, y+3, "end", words.Duration(line)))
	}
	for i, s := range o.Slots {
		if s.Calls == 0 {
			continue
		}
		x, w := chartLeft+float64(i)*columnWidth+1, columnWidth-2
		for _, part := range []struct {
			class string
			d     time.Duration
		}{{"most", s.Most}, {"half", s.Half}} {
			parts = append(parts, svg("rect", nil, "class", part.class, "x", x, "width", w, "y", chartBottom-height(part.d), "height", height(part.d)))
		}
		if s.Failed > 0 {
			parts = append(parts, svg("path", nil, "class", "failed", "d", fmt.Sprintf("M%.1f 2l5 5m-5 0l5-5", x+w/2-2.5)))
		}
	}
	parts = append(parts, svgText(chartLeft, chartBottom+11, "start", "15 min ago"), svgText(chartRight, chartBottom+11, "end", "now"))
	return gomponents.El("svg", class("chart"), gomponents.Attr("viewBox", "0 0 300 84"), html.Role("img"), html.Aria("label", label), group(parts...))
}

// svg is an element of a drawing, with attributes in pairs.
func svg(name string, content node, attributes ...any) node {
	parts := []node{content}
	for i := 0; i < len(attributes); i += 2 {
		value := fmt.Sprint(attributes[i+1])
		if f, ok := attributes[i+1].(float64); ok {
			value = strconv.FormatFloat(f, 'f', 1, 64)
		}
		parts = append(parts, gomponents.Attr(attributes[i].(string), value))
	}
	return gomponents.El(name, parts...)
}

func svgText(x, y float64, anchor, says string) node {
	return svg("text", text(says), "x", x, "y", y, "text-anchor", anchor)
}
