//! A pair of byte pipes inside the process, for clients that run beside their server and for tests.

use tokio::io::{DuplexStream, ReadHalf, WriteHalf};

/// What one side reads from and writes to.
///
/// Dropping both halves is a host that vanished: the other side reads the end and fails to write.
/// Shutting the writer down is a closed stdin: the other side reads the end and can still write.
#[derive(Debug)]
pub struct PipeEnd {
    /// Yields what the other side writes.
    pub reader: ReadHalf<DuplexStream>,
    /// Carries bytes to the other side.
    pub writer: WriteHalf<DuplexStream>,
}

/// Makes two connected ends that hold up to `buffer_bytes` in each direction.
pub fn pipe(buffer_bytes: usize) -> (PipeEnd, PipeEnd) {
    let (one, other) = tokio::io::duplex(buffer_bytes);
    let end = |stream| {
        let (reader, writer) = tokio::io::split(stream);
        PipeEnd { reader, writer }
    };
    (end(one), end(other))
}
