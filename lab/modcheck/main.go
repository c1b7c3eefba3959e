// Command modcheck checks each module of the repository as its users see it (make
// check-modules): go.mod is tidy, every local module has a replace, and the go directives fit.
// A build in the workspace does not notice a missing replace or a missing sum.
package main

import (
	"context"
	"fmt"
	"os"
	"os/signal"
	"path"
	"path/filepath"
	"strings"

	"github.com/holdfast-go/holdfast/lab/internal/modules"
)

// rootGo is the go directive of the root module: the oldest Go that its users need.
const rootGo = "1.25.0"

func main() {
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt)
	problems, err := check(ctx)
	stop()
	if err != nil {
		problems = append(problems, err.Error())
	}
	for _, p := range problems {
		fmt.Println(p)
	}
	if len(problems) > 0 {
		os.Exit(1)
	}
}

func check(ctx context.Context) ([]string, error) {
	root, err := modules.Root(ctx)
	if err != nil {
		return nil, err
	}
	all, err := modules.Find(ctx, root)
	if err != nil {
		return nil, err
	}
	work, err := modules.Output(ctx, root, "go", "work", "edit", "-json", "go.work")
	if err != nil {
		return nil, err
	}
	inWork, err := workFolders(work)
	if err != nil {
		return nil, err
	}
	problems := rules(all, inWork)

	list, err := modules.Output(ctx, root, "go", "list", "-m", "all")
	if err != nil {
		return problems, err
	}
	if n := strings.Count(list, "\n"); n != 1 {
		problems = append(problems, fmt.Sprintf("go.mod: the root module must need no other, but go list -m all prints %d lines:\n%s", n, list))
	}
	for _, m := range all {
		if m.Dir == modules.Bench { // its requirements must be available, even if it is not tidied
			if _, err := modules.Output(ctx, filepath.Join(root, m.Dir), "go", "list", "-deps", "./..."); err != nil {
				problems = append(problems, err.Error())
			}
			continue
		}
		if _, err := modules.Output(ctx, filepath.Join(root, m.Dir), "go", "mod", "tidy", "-diff"); err != nil {
			problems = append(problems, fmt.Sprintf("%s is not tidy: %v", path.Join(m.Dir, "go.mod"), err))
		}
	}
	if len(problems) == 0 {
		fmt.Printf("%d modules in order\n", len(all))
	}
	return problems, nil
}
