package main

import (
	"bytes"
	"encoding/binary"
	"hash/crc32"
	"os"
	"path/filepath"
	"strings"
	"syscall"
	"testing"
	"time"

	"go.uber.org/goleak"
)

// runMain runs the program in this process until it ends by itself.
func runMain(args ...string) (int, string, string) {
	var stdout, stderr bytes.Buffer
	code := Main{Args: args, Stdout: &stdout, Stderr: &stderr}.Run()
	return code, stdout.String(), stderr.String()
}

// lastLine is what an operator sees at the bottom of the terminal.
func lastLine(s string) string {
	lines := strings.Split(strings.TrimSpace(s), "\n")
	return lines[len(lines)-1]
}

// Goal: each thing that can be in the way of a start ends it with exit code 1 and
// one line that says what is in the way and what to do.
func TestRefusesToStart(t *testing.T) {
	defer goleak.VerifyNone(t)
	dir := t.TempDir()
	p := start(t, "--data-dir", dir, "--listen-client", "127.0.0.1:0", "--listen-admin", "127.0.0.1:0")
	file := filepath.Join(t.TempDir(), "file")
	if err := os.WriteFile(file, nil, 0o600); err != nil {
		t.Fatal(err)
	}
	fresh := filepath.Join(t.TempDir(), "fresh")
	free := []string{"--listen-client", "127.0.0.1:0", "--listen-admin", "127.0.0.1:0"}
	for _, tc := range []struct {
		name string
		args []string
		want string
	}{
		{"unknown flag", []string{"--data-dri", dir}, "unknown flag --data-dri: did you mean --data-dir?"},
		{"port in use", []string{"--data-dir", fresh, "--listen-client", p.client, "--listen-admin", "127.0.0.1:0"}, "listen_client: address in use: another program listens on " + p.client + ": stop it"},
		{"admin port in use", []string{"--data-dir", fresh, "--listen-client", "127.0.0.1:0", "--listen-admin", p.admin}, "listen_admin: address in use: another program listens on " + p.admin + ": stop it"},
		{"directory in use", append([]string{"--data-dir", dir}, free...), "in use"},
		{"not a directory", append([]string{"--data-dir", file}, free...), file},
	} {
		code, _, stderr := runMain(tc.args...)
		if code != 1 || !strings.Contains(lastLine(stderr), tc.want) {
			t.Errorf("%s: exit %d, %q", tc.name, code, stderr)
		}
		t.Logf("%s: %s", tc.name, lastLine(stderr))
	}
	p.term()
	if _, err := os.Stat(fresh); !os.IsNotExist(err) {
		t.Errorf("a start that found its port in use leaves a directory: %v", err)
	}
}

// Goal: a directory of another node, one of a newer version, and one with a
// damaged superblock are refused, and nothing in them is changed.
func TestRefusesForeignFiles(t *testing.T) {
	dir := t.TempDir()
	args := []string{"--data-dir", dir, "--listen-client", "127.0.0.1:0", "--listen-admin", "127.0.0.1:0"}
	p := start(t, args...)
	p.serving() // the directory is formed
	p.term()
	super := filepath.Join(dir, "superblock.mmsb")
	whole, err := os.ReadFile(super)
	if err != nil {
		t.Fatal(err)
	}
	for _, tc := range []struct {
		name   string
		change func(b []byte)
		args   []string
		want   string
	}{
		{"another node", func([]byte) {}, []string{"--node-id", "2"}, "node"},
		{"newer version", func(b []byte) { newer(b[:4096]); newer(b[4096:]) }, nil, "SEGMENT_VERSION_TOO_NEW"},
		{"both slots bad", func(b []byte) { b[100] ^= 1; b[4096+100] ^= 1 }, nil, "superblock.mmsb"},
	} {
		b := bytes.Clone(whole)
		tc.change(b)
		if err := os.WriteFile(super, b, 0o600); err != nil {
			t.Fatal(err)
		}
		code, _, stderr := runMain(append(args, tc.args...)...)
		if code != 1 || !strings.Contains(lastLine(stderr), tc.want) {
			t.Errorf("%s: exit %d, %q", tc.name, code, stderr)
		}
		t.Logf("%s: %s", tc.name, lastLine(stderr))
		if after, err := os.ReadFile(super); err != nil || !bytes.Equal(after, b) {
			t.Errorf("%s: the superblock was changed (%v)", tc.name, err)
		}
	}
}

// newer makes a slot one that a later version wrote: whole, of a format that is
// not known here.
func newer(slot []byte) {
	slot[4] = 99
	binary.BigEndian.PutUint32(slot[4092:], crc32.Checksum(slot[:4092], crc32.MakeTable(crc32.Castagnoli)))
}

// Goal: SIGTERM drains and exits with 0 and leaves no goroutine; what is in force
// can be printed without starting.
func TestStopsClean(t *testing.T) {
	defer goleak.VerifyNone(t)
	signals := make(chan os.Signal, 2)
	ready := make(chan string, 1)
	ended := make(chan int)
	var stderr bytes.Buffer
	go func() {
		ended <- Main{
			Args:    []string{"--data-dir", t.TempDir(), "--listen-client", "127.0.0.1:0", "--listen-admin", "127.0.0.1:0"},
			Stderr:  &stderr,
			Signals: signals,
			Ready:   func(client, _ string) { ready <- client },
		}.Run()
	}()
	p := &process{t: t, client: <-ready}
	connected(t, p, 3)
	signals <- syscall.SIGTERM
	select {
	case code := <-ended:
		if code != 0 {
			t.Fatalf("exit %d: %s", code, stderr.String())
		}
		if !strings.Contains(lastLine(stderr.String()), "msg=stopped") {
			t.Errorf("the last line is %q", lastLine(stderr.String()))
		}
	case <-time.After(time.Minute):
		t.Fatal("does not stop")
	}
	code, stdout, _ := runMain("--check-config", "--node-id", "3")
	if code != 0 || !strings.Contains(stdout, "node_id\t3\tflag\n") {
		t.Fatalf("exit %d, %q", code, stdout)
	}
	if code, stdout, _ := runMain("--version"); code != 0 || !strings.HasPrefix(stdout, "mortarmqd ") {
		t.Fatalf("exit %d, %q", code, stdout)
	}
	if code, stdout, _ := runMain("--help"); code != 0 || !strings.Contains(stdout, "Exit codes: 0") {
		t.Fatalf("exit %d, %q", code, stdout)
	}
}
