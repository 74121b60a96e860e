package cli

import (
	"context"
	"net/http"
	"net/url"

	"github.com/spf13/pflag"

	"github.com/mortarmq/mortarmq/node/admin"
)

type groupsListOptions struct{ topic string }

func groupsListFlags(f *pflag.FlagSet, c *call) {
	o := &groupsListOptions{}
	c.values = o
	f.StringVar(&o.topic, "topic", "", "only the groups that read this topic")
}

func groupsList(ctx context.Context, c *call) error {
	query := url.Values{}
	if topic := c.values.(*groupsListOptions).topic; topic != "" {
		query.Set("topic", topic)
	}
	var list admin.List[admin.Group]
	if err := c.get(ctx, "/v1/groups", query, &list); err != nil {
		return err
	}
	t := c.table()
	for _, g := range list.Items {
		t.row(g.Group, g.Topic, g.Lag, g.State)
	}
	return t.print()
}

func groupPath(name string) string { return "/v1/groups/" + escaped(name) }

// groupsDescribe prints a line per partition, from 0 on; member is 0 where
// nobody owns it.
func groupsDescribe(ctx context.Context, c *call) error {
	var g admin.Group
	if err := c.get(ctx, groupPath(c.args[0]), nil, &g); err != nil {
		return err
	}
	t := c.table()
	for _, p := range g.Items {
		t.row(p.Member, p.AssignmentEpoch, p.OwnershipEpoch, p.Lag)
	}
	return t.print()
}

type groupsResetOptions struct{ to string }

func groupsResetFlags(f *pflag.FlagSet, c *call) {
	o := &groupsResetOptions{}
	c.values = o
	f.StringVar(&o.to, "to", "", "earliest, latest, a sequence, or a time such as 2026-01-31T12:00:00Z: the first message not older")
}

// groupsReset prints, per partition, the sequence that is delivered next.
func groupsReset(ctx context.Context, c *call) error {
	o := c.values.(*groupsResetOptions)
	if o.to == "" {
		return usagef("--to is missing: earliest, latest, a sequence or a time")
	}
	var r admin.GroupReset
	if err := c.change(ctx, http.MethodPost, groupPath(c.args[0])+"/reset", url.Values{"to": {o.to}}, &r); err != nil {
		return err
	}
	t := c.table()
	for _, p := range r.Items {
		t.row(p.Partition, p.Sequence)
	}
	return t.print()
}

func groupsDelete(ctx context.Context, c *call) error {
	var r admin.Result
	if err := c.change(ctx, http.MethodDelete, groupPath(c.args[0]), nil, &r); err != nil {
		return err
	}
	t := c.table()
	t.row(r.Result)
	return t.print()
}
