// Package nettest is the conformance suite of the contract in package net: Run
// checks each of its invariants on two ends of whatever implements it. It is run
// on net/tcp and on the simulated network.
//
// It does not check speed, nor what a failing network does (the simulated
// network's own tests do).
package nettest
