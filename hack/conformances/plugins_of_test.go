// Compiled into NRI's tests of pkg/adaptation (adaptation.py): where the runtime of a
// test finds the plugins that it launches.

package adaptation_test

import (
	"os"
	"path/filepath"
)

func pluginsOf(dir string) string {
	if launched := os.Getenv("LAUNCHED_PLUGINS"); launched != "" {
		return launched
	}
	return filepath.Join(dir, "opt", "nri", "plugins")
}
