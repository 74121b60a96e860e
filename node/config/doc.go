// Package config is the broker's configuration: a JSON file, a flag per key,
// flags win (operations.md, "Configuration").
//
// The life of a configuration: Load reads file and flags into the table of
// keys, checks each value's type and range, checks the values against each
// other, and gives a Config that is complete and valid; or an error of one line
// that names the key and says what to write instead. Nothing changes after that
// without a restart.
//
// Invariants:
//
//  1. Every key of the table has an effect; a key that this version does not
//     serve yet is refused by name.
//  2. A value's source (default, file, flag) is known for each key.
//  3. An unknown key, a wrong type, a value out of range and a key that stands
//     twice stop the start.
package config
