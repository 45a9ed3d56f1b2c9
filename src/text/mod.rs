//! Text formats that several parts read or write.
//!
//! Nothing here knows what a document means; it turns text into values and says where it could not.

pub mod markup;
pub mod yaml;
