//! Children (first part: watching for exits).
mod watch;
pub use watch::ExitWatch;
