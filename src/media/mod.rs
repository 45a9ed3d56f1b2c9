//! Images and video: what a file is by its bytes, how large an image is, and how it is made small enough for a model.
//!
//! Bytes are authoritative, names are a hint. [`kind`] tells what bytes are; [`header`] reads the size of an image without
//! decoding it; [`deliver`] has the rules by which an image is passed on, scaled down, cropped or refused; [`pool`] keeps
//! all decodes of the process within a number and a memory budget. Nothing here opens a file, knows a tool or writes a
//! sentence for a model beyond what is wrong with an image.
//!
//! Invariants: nothing is decoded, and no memory is taken for pixels, before the header said how many there are; an image
//! that is handed out has a format every provider takes, and is no larger than was asked for; scaling a result again
//! changes nothing. Start with [`deliver`].

pub mod admit;
pub mod deliver;
mod encode;
pub mod header;
pub mod kind;
mod ladder;
mod orientation;
mod pixels;
pub mod pool;

#[cfg(test)]
pub mod testing;

#[cfg(test)]
mod bomb_tests;
#[cfg(test)]
mod deliver_tests;
