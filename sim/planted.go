package sim

import (
	"fmt"
	"slices"

	"github.com/mortarmq/mortarmq/checker"
	"github.com/mortarmq/mortarmq/fault"
)

// Bug is a planted one: a wrong variant of the broker behind fault.On(Name).
type Bug struct {
	Name     string
	Property string   // that should catch it
	Also     []string // that may be first instead, for the same reason
	What     string
}

// Planted lists the planted bugs.
func Planted() []Bug { return bugs }

var bugs = []Bug{
	{"ack_before_sync", PropertyDurable, nil, "a publish is acknowledged when it is written, without the sync"},
	{"apply_before_commit", PropertyDurable, []string{PropertyPanic}, "ops are applied and answered when they are handed to the disk"},
	{"checkpoint_named_before_sync", PropertyAvailability, []string{PropertyReplay}, "the superblock names a checkpoint whose files are not synced"},
	{"torn_tail_taken_as_good", checker.PropertyAborted, []string{PropertyPanic, PropertyReplay, PropertyInvariant, checker.PropertyInconsistent, checker.PropertyLinear, PropertyOffline}, "an entry at the journal's end is taken without a look at its body"},
	{"hole_taken_as_tail", PropertyReplay, []string{checker.PropertyInconsistent, checker.PropertyBooksFall, checker.PropertyLost, checker.PropertyUnseen, checker.PropertySettledStays, PropertyPanic}, "damage with good entries behind it is cut off as if it were a torn tail"},
	{"dedup_lost_at_restart", PropertyReplay, []string{checker.PropertyDuplicate, PropertyLiveness, checker.PropertyInconsistent, checker.PropertyLost}, "producer windows do not come back from a checkpoint"},
	{"dedup_entry_for_refused_publish", PropertyDurable, []string{PropertyInvariant, PropertyLiveness, checker.PropertyLost, checker.PropertyLinear, checker.PropertyInconsistent}, "a refused publish leaves its sequence in the window, and the repeat is called a duplicate"},
	{"ledger_not_replayed", PropertyReplay, []string{checker.PropertyBooksFall, checker.PropertyAtLeastOnce, checker.PropertyDeadLetter}, "ACKs in the journal are not replayed"},
	{"ack_floor_off_by_one", PropertyInvariant, []string{checker.PropertyBooks, checker.PropertyAtLeastOnce}, "an ACK settles the next message too"},
	{"sequence_reused_after_recovery", PropertyReplay, []string{PropertyPanic, PropertyInvariant, checker.PropertyLost, checker.PropertyInconsistent}, "a recovered partition begins one sequence too low"},
	{"ownership_epoch_not_raised", checker.PropertyOwnership, []string{PropertyLiveness}, "a partition changes hands under its old epoch"},
	{"dead_letter_twice", checker.PropertyDeadLetter, []string{PropertyInvariant}, "a message that died gets a second dead letter"},
	{"credit_leak", PropertyLiveness, nil, "credit that is given back gets lost, until nothing is left"},
	{"reused_delivery_id", checker.PropertyDeliveryIDs, []string{checker.PropertySettledStays, checker.PropertyOwnership, PropertyPanic}, "a redelivery goes out under the id of the one before"},
	{"segment_flush_without_sync", PropertyAvailability, []string{PropertyReplay}, "a checkpoint does not wait for its segments to be synced"},
	{"lease_on_wall_clock", PropertyLease, []string{checker.PropertyCharges}, "leases run by the wall clock"},
	{"release_charges", checker.PropertyCharges, nil, "a release spends an attempt"},
	{"backoff_lost_on_new_owner", PropertyBackoff, nil, "what waits for its backoff is due at once for the next owner"},
	{"nack_delay_ignored", PropertyBackoff, nil, "a NACK's delay is not kept"},
	{"progress_renews_nothing", PropertyLease, nil, "PROGRESS is answered and the lease runs on"},
	{"floor_over_unsettled", checker.PropertyAtLeastOnce, []string{PropertyInvariant}, "the floor jumps over a message that is not settled"},
	{"dead_letter_forgotten", checker.PropertyAtLeastOnce, []string{checker.PropertyUnseen}, "a rejected message is dropped, and the twin has nothing of it"},
	{"redrive_twice", checker.PropertyRedrive, []string{PropertyInvariant}, "a dead letter that came back can come back again"},
	{"stale_ack_accepted", checker.PropertyOwnership, []string{PropertyProtocol, PropertyInvariant}, "an ACK of an owner whose time is over counts"},
	{"vanished_member_kept", PropertyLiveness, nil, "a member whose connection is gone keeps what it owns"},
	{"vanished_charged_for_all", checker.PropertyCharges, nil, "a member that vanishes is charged for all that it held"},
	{"revoke_without_end", PropertyLiveness, nil, "a member that does not confirm a REVOKE is waited for without end"},
	{"credit_lost_on_revoke", PropertyLiveness, nil, "what is out when a partition is revoked is taken off the window for good"},
	{"credit_bytes_ignored", PropertyCredit, nil, "a message is sent though the balance has too few bytes for it"},
	{"unanswered_without_bound", PropertyMemory, nil, "a connection is read however much of it is unanswered"},
	{"reset_keeps_entries", PropertyInvariant, []string{PropertyPanic}, "a reset leaves the deliveries of before in the ledger"},
	{"reset_to_time_one_late", checker.PropertyResetToTime, nil, "a reset to a time goes on behind the first message of that time"},
	{"epochs_restart_with_group", checker.PropertyOwnership, []string{checker.PropertyBooksFall}, "a group that is made anew has the ownership epochs of the one before"},
}

// Plant switches a planted bug on for the rest of the process, after proof that
// planting works at all.
func Plant(name string) error {
	if !slices.ContainsFunc(bugs, func(b Bug) bool { return b.Name == name }) {
		return fmt.Errorf("there is no planted bug %q: see --list-planted", name)
	}
	if !fault.Enabled {
		return fmt.Errorf("this binary holds no planted bugs: go run -tags faults ./cmd/sim --planted %s --seeds 1..1000", name)
	}
	return plant(name)
}
