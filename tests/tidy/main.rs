//! House rules that prose alone does not keep: who may import whom, folders that say what they are for, tools with
//! their descriptions, standard output left to the protocol, a README whose commands exist.

#![expect(
    clippy::disallowed_methods,
    clippy::print_stdout,
    clippy::unwrap_used,
    reason = "looks at the sources, and tells what it only warns about"
)]

mod docs;
mod imports;
mod layers;
mod outside;
mod sources;
mod tools;
