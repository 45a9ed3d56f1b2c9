//! longshore: a headless agent server.
//!
//! Modules stand in layer order (see `ARCHITECTURE.md`): a module may use those above it, never those below.

// Layer 1: vocabulary, the outside world, JSON-RPC.
pub mod kernel;
pub mod os;
pub mod rpc;
// Layer 2: storage and formats.
pub mod config;
pub mod http;
pub mod media;
pub mod path;
pub mod schema;
pub mod store;
pub mod text;
// Layer 3: one concern each.
pub mod background;
pub mod cron;
pub mod permission;
pub mod provider;
// Layer 4: the model's hands.
pub mod tool;
// Layer 5: one conversation.
pub mod agent;
// Layer 6: sessions and the hosts that watch them.
pub mod hub;
pub mod session;
// Layer 7: protocols spoken to hosts.
pub mod face;
// Layer 8: composition and commands.
pub mod app;
pub mod cli;
