//! .
use std::path::Path;
/// .
#[derive(Debug)]
pub struct Shell;
impl Shell {
    /// .
    pub fn program(&self) -> &Path { Path::new("/bin/bash") }
}
