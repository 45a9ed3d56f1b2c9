//! Text files as the model sees them, and the way back to their bytes. Read, Edit and Write all look at files through
//! this.
//!
//! - [`encoding`]: a whole file as text: UTF-8, UTF-16 or, where there is no doubt, an older encoding.
//! - [`endings`]: the three styles of line endings, and how a line is shown in each.
//! - [`check`]: whether bytes are UTF-8 text at all, piece by piece, for files that are not read whole.
//! - [`conform`]: new content in the form of the file that it replaces or is added to.
//!
//! Invariants: a byte-order mark is never shown and never lost; what can't be decoded without loss is no text; nothing
//! here changes a byte of a file: an edit asks where its characters stand and splices there.

pub(super) mod check;
pub(super) mod conform;
pub(super) mod encoding;
pub(super) mod endings;
mod legacy;
mod utf16;

/// The UTF-8 byte-order mark.
pub(super) const BOM: &[u8] = b"\xEF\xBB\xBF";

/// Bytes from the beginning by which a file is told.
pub(super) const SNIFF_BYTES: usize = 512;

/// Files in another encoding than UTF-8 are decoded whole, so they may not be large.
pub(super) const MAX_DECODED_BYTES: u64 = 10 << 20;
