package cli

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net/http"
	"net/url"
	"time"

	"github.com/mortarmq/mortarmq/node/admin"
)

// get asks the admin port for path and decodes the answer into body.
func (c *call) get(ctx context.Context, path string, query url.Values, body any) error {
	ctx, cancel := context.WithTimeout(ctx, 10*time.Second)
	defer cancel()
	u := url.URL{Scheme: "http", Host: c.admin, Path: path, RawQuery: query.Encode()}
	req, err := http.NewRequestWithContext(ctx, http.MethodGet, u.String(), nil)
	if err != nil {
		return usagef("--admin: %v", err)
	}
	resp, err := http.DefaultClient.Do(req)
	if err != nil {
		var ue *url.Error
		if errors.As(err, &ue) {
			err = ue.Err
		}
		return noBrokerError{fmt.Errorf("no broker answers on the admin port %s: %w", c.admin, err)}
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
		return fmt.Errorf("%s: %s", e.Name, e.Message)
	}
	return json.Unmarshal(data, body)
}

func topicsList(ctx context.Context, c *call) error {
	var list admin.List[admin.Topic]
	if err := c.get(ctx, "/v1/topics", nil, &list); err != nil {
		return err
	}
	t := c.table("name", "partitions", "state", "created_epoch")
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
	t := c.table("node_id", "uptime_s", "connections", "version")
	t.row(b.NodeID, b.UptimeS, b.Connections, b.Version)
	return t.print()
}
