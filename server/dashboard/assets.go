package dashboard

import (
	"embed"
	"net/http"
	"strings"
)

//go:embed static
var static embed.FS

// asset serves a style sheet or a script. Each program has its own: they are asked for again
// with each page, and are small.
func (d *Dashboard) asset(v *visit) {
	text, err := static.ReadFile("static" + v.r.URL.Path)
	if err != nil {
		v.fail(http.StatusNotFound, "There is no such file.")
		return
	}
	kind := "text/css; charset=utf-8"
	if strings.HasSuffix(v.r.URL.Path, ".js") {
		kind = "text/javascript; charset=utf-8"
	}
	v.w.Header().Set("Content-Type", kind)
	v.write(http.StatusOK, text)
}
