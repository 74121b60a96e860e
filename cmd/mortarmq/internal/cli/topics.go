package cli

import (
	"context"

	"github.com/spf13/pflag"

	"github.com/mortarmq/mortarmq/wire"
)

type topicsOptions struct{ partitions int }

func topicsCreateFlags(f *pflag.FlagSet, c *call) {
	o := &topicsOptions{}
	c.values = o
	f.IntVar(&o.partitions, "partitions", 0, "number of partitions; 0 is the broker's default")
}

func topicsCreate(ctx context.Context, c *call) error {
	o := c.values.(*topicsOptions)
	if o.partitions < 0 || o.partitions > wire.MaxPartitions {
		return usagef("--partitions: 1 to %d", wire.MaxPartitions)
	}
	cl, err := c.dial(ctx)
	if err != nil {
		return err
	}
	defer cl.Close()
	topic, err := cl.Declare(ctx, c.args[0], o.partitions)
	if err != nil {
		return err
	}
	result := "existed"
	if topic.Created {
		result = "created"
	}
	t := c.table()
	t.row(result, topic.ID)
	return t.print()
}

func topicsDelete(ctx context.Context, c *call) error {
	cl, err := c.dial(ctx)
	if err != nil {
		return err
	}
	defer cl.Close()
	deleted, err := cl.DeleteTopic(ctx, c.args[0])
	if err != nil {
		return err
	}
	result := "not_found"
	if deleted {
		result = "deleted"
	}
	t := c.table()
	t.row(result)
	return t.print()
}
