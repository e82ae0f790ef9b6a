package repair

import (
	"os"
	"path/filepath"
	"strings"
	"testing"
)

func TestEdit(t *testing.T) {
	t.Parallel()
	for name, tt := range map[string]struct{ text, want, wantErr string }{
		"flawed":   {"import (\n" + edits[0].old + "\t\"io\"\n)\n" + edits[1].old, "import (\n\t\"io\"\n)\n" + edits[1].new, ""},
		"repaired": {"import (\n\t\"io\"\n)\n" + edits[1].new, "", "look whether the flaw is gone"},
		"twice":    {edits[0].old + edits[1].old + edits[1].old, "", "2 times"},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			file := filepath.Join(t.TempDir(), "json.go")
			if err := os.WriteFile(file, []byte(tt.text), 0o444); err != nil { // as in the module cache
				t.Fatal(err)
			}
			err := editFile(file)
			if tt.wantErr != "" {
				if err == nil || !strings.Contains(err.Error(), tt.wantErr) {
					t.Errorf("edit: %v, want %q", err, tt.wantErr)
				}
				return
			}
			if err != nil {
				t.Fatal(err)
			}
			if got, err := os.ReadFile(file); err != nil || string(got) != tt.want {
				t.Errorf("the file is %q, %v, want %q", got, err, tt.want)
			}
		})
	}
}
