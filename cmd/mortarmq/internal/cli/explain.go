package cli

import (
	"context"
	"net/url"
	"strconv"

	"github.com/spf13/pflag"

	"github.com/mortarmq/mortarmq/node/admin"
)

type explainOptions struct{ group string }

func explainFlags(f *pflag.FlagSet, c *call) {
	o := &explainOptions{}
	c.values = o
	f.StringVar(&o.group, "group", "", "only for this group; without it for each that reads the topic")
}

// explain prints a key and a value a line; each group begins with its name.
func explain(ctx context.Context, c *call) error {
	if _, err := strconv.ParseUint(c.args[1], 10, 16); err != nil {
		return usagef("PARTITION is a number from 0, not %q", c.args[1])
	}
	query := url.Values{"topic": {c.args[0]}, "partition": {c.args[1]}}
	if group := c.values.(*explainOptions).group; group != "" {
		query.Set("group", group)
	}
	var list admin.List[admin.Explanation]
	if err := c.get(ctx, "/v1/explain", query, &list); err != nil {
		return err
	}
	if c.json {
		return c.printJSON(list)
	}
	t := c.table()
	for _, x := range list.Items {
		t.row("group", x.Group)
		t.row("holds", x.Holds)
		t.row("why", x.Why)
		t.row("sequence", x.Sequence)
		t.row("floor", x.Floor)
		t.row("last_seq", x.LastSeq)
		t.row("lag", x.Lag)
		t.row("state", x.State)
		t.row("owner", x.Owner)
		t.row("ownership_epoch", x.OwnershipEpoch)
		t.row("last_heard_ms", x.LastHeardMs)
		t.row("pulling", x.Pulling)
		t.row("leases", x.Leases)
		t.row("lease_ends_ms", x.LeaseEndsMs)
		t.row("waiting", x.Waiting)
		t.row("next_due", x.NextDue)
		t.row("dead", x.Dead)
		t.row("credit_count", x.CreditCount)
		t.row("credit_bytes", x.CreditBytes)
		t.row("window_count", x.WindowCount)
		t.row("window_bytes", x.WindowBytes)
		t.row("damage", x.Damage)
	}
	return t.print()
}
