// Package disktest is the conformance suite of the contract in package disk: Run
// checks each of its invariants on whatever implements it. It is run on osdisk
// and on the simulated disk, so that a broker which works on one finds nothing
// new on the other.
//
// It does not check speed, nor what a failing device does (the simulated disk's
// own tests do).
package disktest
