package main

import (
	"context"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/mortarmq/mortarmq/client"
)

// Goal: a journal file that was written to and is cut short, or emptied, stops
// the start instead of passing for a journal that ends early.
func TestRefusesShortJournal(t *testing.T) {
	dir := t.TempDir()
	args := []string{"--data-dir", dir, "--listen-client", "127.0.0.1:0", "--listen-admin", "127.0.0.1:0"}
	p := start(t, args...)
	ctx := context.Background()
	cl, err := client.Dial(ctx, client.Options{Addrs: []string{p.client}})
	if err != nil {
		t.Fatal(err)
	}
	defer cl.Close()
	producer, err := cl.Producer(ctx, "t", client.ProducerOptions{})
	if err != nil {
		t.Fatal(err)
	}
	if _, err := producer.Publish(ctx, client.Message{Value: []byte("v")}); err != nil {
		t.Fatal(err)
	}
	p.kill()
	first := filepath.Join(dir, "journal", "0000000001.mmjl")
	for _, size := range []int64{1 << 20, 4096, 0} {
		if err := os.Truncate(first, size); err != nil {
			t.Fatal(err)
		}
		code, _, stderr := runMain(args...)
		if code != 1 || !strings.Contains(lastLine(stderr), fmt.Sprintf("0000000001.mmjl offset %d sequence 1: the file is cut short", size)) {
			t.Errorf("cut to %d bytes: exit %d, %s", size, code, lastLine(stderr))
		}
	}
}
