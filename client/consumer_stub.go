package client

import "github.com/mortarmq/mortarmq/client/core"

type Consumer struct{}

func (c *Client) deliverMessages([]core.Delivery)  {}
func (c *Client) deliverConsumerEvent(*core.Event) {}
