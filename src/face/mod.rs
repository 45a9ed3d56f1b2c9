//! Faces: the protocols spoken to hosts, one folder each.
//!
//! A face turns messages into calls of the layers below and events back into messages. It holds no domain logic, and
//! faces do not know one another.

pub mod acp;
pub mod native;
