//! .
use std::path::Path;
/// .
#[derive(Debug)]
pub struct Shell;
impl Shell {
    /// .
    pub fn new(_: &crate::os::env::Env, _: &crate::config::values::ShellConfig, _: crate::os::process::Processes) -> Self { Self }
    /// .
    pub fn program(&self) -> &Path { Path::new("/bin/bash") }
}
