package engines

import (
	"context"
	"embed"
	"io/fs"
	"net/http"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/holdfast-go/holdfast/lab/thorough"
)

//go:embed search opensearch elasticsearch
var searchProjects embed.FS

// newer is the environment variable that makes the tests start OpenSearch 3. There is no newer
// Elasticsearch, because no registry has its script language.
const newer = "HOLDFAST_TEST_NEWER"

const newOpenSearch = "-Dopensearch.version=3.8.0"

var (
	openSearch    = searchKind("opensearch")
	elasticsearch = searchKind("elasticsearch")
	searchKinds   = []*kind{openSearch, elasticsearch}
)

func searchKind(name string) *kind {
	return &kind{name: name, start: func(ctx context.Context) (*process, error) {
		folder, err := nodeFolder(ctx)
		if err != nil {
			return nil, err
		}
		return startSearch(ctx, name, folder, 0)
	}}
}

// nodeFolder returns the path of a folder for a node, which does not exist yet. These folders
// are beside each other, because a node removes old ones.
func nodeFolder(ctx context.Context) (string, error) {
	cache, err := cacheDir(ctx)
	return filepath.Join(cache, "nodes", Name()), err
}

// startSearch starts a node with the data in the folder. A node of a cluster also gets a name,
// a port for other nodes, and the list of all nodes.
func startSearch(ctx context.Context, name, folder string, port int, cluster ...string) (*process, error) {
	p := project{name: name}
	for _, part := range []string{"search", name} {
		files, err := fs.Sub(searchProjects, part)
		if err != nil {
			return nil, err
		}
		p.files = append(p.files, files)
	}
	java, err := find("java")
	if name == "opensearch" && os.Getenv(newer) != "" {
		p.arguments = []string{newOpenSearch}
		java, err = jre(ctx)
	}
	if err != nil {
		return nil, err
	}
	classPath, err := build(ctx, p)
	if err != nil {
		return nil, err
	}
	return launch(ctx, java, append([]string{
		"-Xms64m", "-Xmx512m", "-XX:+UseSerialGC", "-XX:TieredStopAtLevel=1",
		"-Dlog4j2.level=ERROR", "-Dlog4j2.statusLoggerLevel=OFF",
		"-cp", classPath, "engine.Main", folder, strconv.Itoa(port),
	}, cluster...)...)
}

// OpenSearch returns a node of OpenSearch that all tests of this process share, or the node
// that HOLDFAST_TEST_OPENSEARCH_URL names.
func OpenSearch(t testing.TB) Engine {
	t.Helper()
	return openSearch.shared(t)
}

// Elasticsearch returns a node of Elasticsearch that all tests of this process share, or the
// node that HOLDFAST_TEST_ELASTICSEARCH_URL names.
func Elasticsearch(t testing.TB) Engine {
	t.Helper()
	return elasticsearch.shared(t)
}

// StartOpenSearch is OpenSearch for programs other than tests. If this machine lacks something,
// the error says how to get it.
func StartOpenSearch(ctx context.Context) (Engine, error) { return openSearch.get(ctx) }

// StartElasticsearch is Elasticsearch for programs other than tests. If this machine lacks
// something, the error says how to get it.
func StartElasticsearch(ctx context.Context) (Engine, error) { return elasticsearch.get(ctx) }

// SearchEngines runs a test on OpenSearch(t) and, unless the run is short, on Elasticsearch(t).
// The two nearly always answer alike.
func SearchEngines(t *testing.T, test func(t *testing.T, e Engine)) {
	t.Helper()
	for i, k := range searchKinds {
		t.Run(k.name, func(t *testing.T) {
			if i > 0 {
				thorough.Test(t, "once more on "+k.name)
			}
			test(t, k.shared(t))
		})
	}
}

// SearchIndex returns the name of a new index, which is deleted when the test ends.
func SearchIndex(t testing.TB, e Engine) string {
	t.Helper()
	name := Name()
	t.Cleanup(func() {
		ctx, cancel := context.WithTimeout(context.WithoutCancel(t.Context()), 30*time.Second)
		defer cancel()
		request, err := http.NewRequestWithContext(ctx, http.MethodDelete, strings.TrimSuffix(e.URL, "/")+"/"+name+"?ignore_unavailable=true", nil)
		if err != nil {
			t.Fatal(err)
		}
		// A kept connection would be a goroutine that outlives the test.
		request.Close = true
		response, err := http.DefaultClient.Do(request)
		if err != nil {
			t.Errorf("deleting index %s: %v", name, err)
			return
		}
		response.Body.Close()
		if response.StatusCode != http.StatusOK && response.StatusCode != http.StatusNotFound {
			t.Errorf("deleting index %s: %s", name, response.Status)
		}
	})
	return name
}

// SearchServer is a node for one test, which may stop it.
type SearchServer struct{ own }

// NewOpenSearch starts a node of OpenSearch, even if HOLDFAST_TEST_OPENSEARCH_URL names one. It
// ends with the test.
func NewOpenSearch(t testing.TB) *SearchServer {
	t.Helper()
	return newSearchServer(t, openSearch)
}

// NewElasticsearch starts a node of Elasticsearch, even if HOLDFAST_TEST_ELASTICSEARCH_URL
// names one. It ends with the test.
func NewElasticsearch(t testing.TB) *SearchServer {
	t.Helper()
	return newSearchServer(t, elasticsearch)
}

// SearchServers runs a test with NewOpenSearch(t) and with NewElasticsearch(t).
func SearchServers(t *testing.T, test func(t *testing.T, s *SearchServer)) {
	t.Helper()
	for i, k := range searchKinds {
		t.Run(k.name, func(t *testing.T) {
			if i > 0 {
				thorough.Test(t, "once more on "+k.name)
			}
			test(t, newSearchServer(t, k))
		})
	}
}

func newSearchServer(t testing.TB, k *kind) *SearchServer {
	t.Helper()
	folder, err := nodeFolder(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	s := &SearchServer{own{kind: k, folder: folder}}
	s.start = func(ctx context.Context, port int) (*process, error) { return startSearch(ctx, k.name, folder, port) }
	s.endWithTest(t)
	s.begin(t, s.start, 0)
	return s
}

// Empty is Restart without the data.
func (s *SearchServer) Empty(t testing.TB) {
	t.Helper()
	s.empty(t, s.folder, s.start)
}
