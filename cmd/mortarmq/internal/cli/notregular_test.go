package cli

import (
	"os"
	"path/filepath"
	"testing"

	"golang.org/x/sys/unix"

	"github.com/mortarmq/mortarmq/disk"
	"github.com/mortarmq/mortarmq/node/format/verify"
)

// Goal: verify and dump neither wait for a pipe's other end nor take a link for the
// file: both say what it is.
func TestNotRegular(t *testing.T) {
	dir := t.TempDir()
	if err := unix.Mkfifo(filepath.Join(dir, "pipe"), 0o644); err != nil {
		t.Fatal(err)
	}
	if err := os.Symlink("none", filepath.Join(dir, "link")); err != nil {
		t.Fatal(err)
	}
	entries, err := dataDir{dir}.List("")
	if err != nil || len(entries) != 2 {
		t.Fatal(entries, err)
	}
	for _, e := range entries {
		if _, err := (dataDir{dir}).Open(e.Name); err != disk.ErrNotRegular || !e.Irregular {
			t.Errorf("%+v: %v", e, err)
		}
	}
	if _, err := openFile(filepath.Join(dir, "pipe"), 0); err != disk.ErrNotRegular {
		t.Error(err)
	}
	report := verify.Verify(dataDir{dir}, verify.Options{})
	if report.Damaged() {
		t.Error(report.Findings)
	}
}

// Goal: a pipe or a link in the place of a data file is damage, or a note where the
// next start removes it.
func TestVerifyNotRegular(t *testing.T) {
	for path, level := range map[string]verify.Level{"topics/1/0/1.mqs": verify.Note, "superblock.mmsb": verify.Damage} {
		dir := t.TempDir()
		at := filepath.Join(dir, path)
		if err := os.MkdirAll(filepath.Dir(at), 0o755); err != nil {
			t.Fatal(err)
		}
		if err := unix.Mkfifo(at, 0o644); err != nil {
			t.Fatal(err)
		}
		report := verify.Verify(dataDir{dir}, verify.Options{})
		found := false
		for _, f := range report.Findings {
			found = found || f.Path == path && f.Level == level
		}
		if !found {
			t.Errorf("%s: %v", path, report.Findings)
		}
	}
}
