//! Text formats that several parts read.
//!
//! Nothing here knows what a document means; it turns text into values and says where it could not.

pub mod yaml;
