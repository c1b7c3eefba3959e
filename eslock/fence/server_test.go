package fence_test

import (
	"bytes"
	"encoding/json"
	"fmt"
	"io"
	"maps"
	"net/http"
	"sync"
)

// object is a JSON object.
type object = map[string]any

// server is a fake node: it keeps documents and does what the script says, without
// interpreting it. The tests of the script, on nodes, are in eslock/integration/fence.
type server struct {
	mu   sync.Mutex
	docs map[string]object
	sent []request
	// fault may answer instead; an empty body means no fault.
	fault func(n int) (status int, body string)
}

// request is a request that arrived.
type request struct {
	action struct {
		ID string `json:"_id"`
	}
	update struct {
		Upsert object
		Script struct {
			Params struct {
				Token    int64
				Whole    bool
				Document object
			}
		}
	}
}

func newServer() *server { return &server{docs: map[string]object{}} }

func (s *server) get(id string) object {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.docs[id]
}

func (s *server) requests() []request {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.sent
}

// Perform implements eslock.Performer.
func (s *server) Perform(req *http.Request) (*http.Response, error) {
	if err := req.Context().Err(); err != nil {
		return nil, err
	}
	body, err := io.ReadAll(req.Body)
	if err != nil {
		return nil, err
	}
	var r request
	lines := bytes.Split(bytes.TrimSuffix(body, []byte("\n")), []byte("\n"))
	if len(lines) != 4 || !bytes.Equal(lines[0], lines[2]) {
		return nil, fmt.Errorf("%d lines", len(lines))
	}
	if err := json.Unmarshal(lines[0], &struct{ Update any }{&r.action}); err != nil {
		return nil, err
	}
	if err := json.Unmarshal(lines[1], &r.update); err != nil {
		return nil, err
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	s.sent = append(s.sent, r)
	status, answer := 200, ""
	if s.fault != nil {
		status, answer = s.fault(len(s.sent))
	}
	switch {
	case status == 0:
		return nil, fmt.Errorf("%s", answer)
	case answer == "":
		done := s.apply(r)
		kept := maps.Clone(done)
		kept["result"] = "noop"
		text, err := json.Marshal([]object{{"update": done}, {"update": kept}})
		if err != nil {
			return nil, err
		}
		answer = `{"took":1,"errors":false,"items":` + string(text) + `}`
	}
	return &http.Response{StatusCode: status, Header: http.Header{}, Body: io.NopCloser(bytes.NewReader([]byte(answer)))}, nil
}

func (s *server) apply(r request) object {
	p := r.update.Script.Params
	doc := s.docs[r.action.ID]
	reply := object{"_id": r.action.ID, "result": "updated"}
	if doc == nil {
		if r.update.Upsert == nil {
			return object{"_id": r.action.ID, "error": object{"type": "document_missing_exception", "reason": "document missing"}}
		}
		doc, reply["result"] = object{}, "created"
	}
	if seen, is := doc["fence"].(int64); is && seen > p.Token {
		reply["result"] = "noop"
	} else {
		if p.Whole {
			doc = object{}
		}
		maps.Copy(doc, p.Document)
		doc["fence"] = p.Token
		s.docs[r.action.ID] = doc
	}
	reply["get"] = object{"_source": object{"fence": doc["fence"]}}
	return reply
}
