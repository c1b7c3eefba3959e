package front

import (
	"fmt"
	"mime"
	"net/http"
	"strings"

	"github.com/holdfast-go/holdfast/httplock/wire"
)

// checkForwarded refuses what a proxy has forwarded to a server that takes everybody for a
// user of its machine, or who connects to its socket for the operator: it is not for the
// proxy to let them in.
func (f *Front) checkForwarded(r *http.Request) *refusal {
	if _, socket := peerOf(r); f.opts.Identify != nil && !socket {
		return nil
	}
	for name := range r.Header {
		if name == "Forwarded" || strings.HasPrefix(name, "X-Forwarded-") {
			return refused(wire.KindDenied, fmt.Sprintf("a proxy has forwarded the request (it has the header %.60s), but the server does not ask who its callers are", name))
		}
	}
	return nil
}

// checkOrigin refuses what a page of another origin sends. A GET changes nothing, and no
// such page can read its answer, but it could keep others from lists and watches. Only what
// somebody opens, by a link in a ticket, may come from elsewhere.
func (f *Front) checkOrigin(r *http.Request) *refusal {
	h := r.Header
	if origins := h.Values("Origin"); len(origins) > 1 || len(origins) == 1 && origins[0] == "null" {
		return refused(wire.KindDenied, "the request comes from a page without an origin")
	}
	if r.Method == http.MethodGet && h.Get("Sec-Fetch-Mode") == "navigate" && h.Get("Sec-Fetch-Dest") == "document" {
		return nil
	}
	post := *r
	post.Method = http.MethodPost // the protection lets all of GET pass
	if err := f.origins.Check(&post); err != nil {
		return refused(wire.KindDenied, "the request comes from a page of another origin")
	}
	return nil
}

// checkType refuses a POST of another type than JSON. Pages of other origins can send only
// others without asking first.
func checkType(r *http.Request) *refusal {
	if r.Method != http.MethodPost {
		return nil
	}
	types := r.Header.Values("Content-Type")
	if len(types) == 1 && isJSON(types[0]) {
		if coding := strings.Join(r.Header.Values("Content-Encoding"), ","); strings.Trim(coding, ", \t") != "" {
			return refused(wire.KindMediaType, fmt.Sprintf("the body has the content coding %.40q, but must have none", coding))
		}
		return nil
	}
	return refused(wire.KindMediaType, "a POST must have one header Content-Type: "+wire.JSON+", with no charset or utf-8")
}

func isJSON(media string) bool {
	if media == wire.JSON {
		return true
	}
	kind, params, err := mime.ParseMediaType(media)
	charset, ok := params["charset"]
	return err == nil && kind == wire.JSON && (!ok || strings.EqualFold(charset, "utf-8"))
}
