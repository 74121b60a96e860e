package cli

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net/http"
	"net/url"
	"strings"
	"time"

	"github.com/mortarmq/mortarmq/node/admin"
)

const (
	readTimeout   = 10 * time.Second
	changeTimeout = 40 * time.Second // the broker gives up before
)

// escaped is a name as a segment of a path, whatever it is: a dot or two alone would
// be taken for the segment itself or the one before.
func escaped(name string) string {
	if name == "." || name == ".." {
		return strings.ReplaceAll(name, ".", "%2E")
	}
	return url.PathEscape(name)
}

// get asks the admin port for path and decodes the answer into body. Names in
// path are escaped.
func (c *call) get(ctx context.Context, path string, query url.Values, body any) error {
	ctx, cancel := context.WithTimeout(ctx, readTimeout)
	defer cancel()
	return c.request(ctx, http.MethodGet, path, query, body)
}

// change is get for what changes something: it brings the token along.
func (c *call) change(ctx context.Context, method, path string, query url.Values, body any) error {
	ctx, cancel := context.WithTimeout(ctx, changeTimeout)
	defer cancel()
	return c.request(ctx, method, path, query, body)
}

func (c *call) request(ctx context.Context, method, path string, query url.Values, body any) error {
	if err := checkAddr("--admin", c.admin); err != nil {
		return err
	}
	address := "http://" + c.admin + path
	if len(query) > 0 {
		address += "?" + query.Encode()
	}
	req, err := http.NewRequestWithContext(ctx, method, address, nil)
	if err != nil {
		return usagef("--admin: %v", err)
	}
	token := ""
	if method != http.MethodGet {
		if token, err = c.token(); err != nil {
			return err
		}
		if token != "" {
			req.Header.Set("Authorization", "Bearer "+token)
		}
	}
	resp, err := http.DefaultClient.Do(req)
	if err != nil {
		var ue *url.Error
		if errors.As(err, &ue) {
			err = ue.Err
		}
		if strings.Contains(err.Error(), "malformed HTTP") {
			return noBrokerError{fmt.Errorf("no admin port: what answers on %s speaks no HTTP, such as a broker's client port; --admin chooses another address", c.admin)}
		}
		return noBrokerError{fmt.Errorf("no broker answers on the admin port %s: %w: is mortarmqd running? --admin chooses another address", c.admin, err)}
	}
	defer resp.Body.Close()
	data, err := io.ReadAll(io.LimitReader(resp.Body, 64<<20))
	if err != nil {
		return noBrokerError{fmt.Errorf("the admin port %s broke off: %w", c.admin, err)}
	}
	if resp.StatusCode != http.StatusOK {
		var e admin.Error
		if json.Unmarshal(data, &e) != nil || e.Name == "" {
			return fmt.Errorf("the admin port answers %s", resp.Status)
		}
		if resp.StatusCode == http.StatusUnauthorized && token == "" {
			return errNoToken
		}
		if resp.StatusCode == http.StatusBadRequest {
			return usagef("%s", e.Message)
		}
		return fmt.Errorf("%s: %s", e.Name, e.Message)
	}
	return json.Unmarshal(data, body)
}

func topicsList(ctx context.Context, c *call) error {
	var list admin.List[admin.Topic]
	if err := c.get(ctx, "/v1/topics", nil, &list); err != nil {
		return err
	}
	t := c.table()
	for _, topic := range list.Items {
		t.row(topic.Name, topic.Partitions, topic.State, topic.CreatedEpoch)
	}
	return t.print()
}

func brokerStatus(ctx context.Context, c *call) error {
	var b admin.Broker
	if err := c.get(ctx, "/v1/broker", nil, &b); err != nil {
		return err
	}
	t := c.table()
	t.row(b.NodeID, b.UptimeS, b.Connections, b.Version)
	if err := t.print(); err != nil {
		return err
	}
	if b.Reason != "" {
		fmt.Fprintln(c.Stderr, b.Level+": "+b.Reason)
	}
	for _, d := range b.Damaged {
		fmt.Fprintf(c.Stderr, "partition %d of %s: %s\n", d.Partition, d.Topic, d)
	}
	return nil
}

func leaderGet(ctx context.Context, c *call) error {
	var l admin.Leader
	if err := c.get(ctx, "/v1/leader", nil, &l); err != nil {
		return err
	}
	t := c.table()
	t.row(l.LeaderID, l.LeaderEpoch, l.QuorumState)
	return t.print()
}
