//! Images made in code, for tests.

use image::codecs::gif::GifEncoder;
use image::codecs::jpeg::JpegEncoder;
use image::codecs::png::PngEncoder;
use image::codecs::webp::WebPEncoder;
use image::{ExtendedColorType, Frame, ImageEncoder, RgbImage, RgbaImage};

/// Pixels to be written in any format.
pub type Photo = RgbImage;

/// An image that hardly compresses; the same for the same size.
pub fn noise(width: u32, height: u32) -> Photo {
    let mut state = 0x9E37_79B9_u32 ^ (width << 16) ^ height;
    RgbImage::from_fn(width, height, |_, _| {
        state ^= state << 13;
        state ^= state >> 17;
        state ^= state << 5;
        image::Rgb([state as u8, (state >> 8) as u8, (state >> 16) as u8])
    })
}

/// An image that compresses well: colours run from corner to corner.
pub fn gradient(width: u32, height: u32) -> Photo {
    RgbImage::from_fn(width, height, |x, y| {
        let part = |n: u32, of: u32| (n * 255 / of.max(1)) as u8;
        image::Rgb([part(x, width), part(y, height), 100])
    })
}

/// As PNG.
pub fn png(photo: &Photo) -> Vec<u8> {
    let mut bytes = Vec::new();
    let (width, height) = photo.dimensions();
    PngEncoder::new(&mut bytes)
        .write_image(photo, width, height, ExtendedColorType::Rgb8)
        .unwrap();
    bytes
}

/// As JPEG of good quality.
pub fn jpeg(photo: &Photo) -> Vec<u8> {
    let mut bytes = Vec::new();
    let (width, height) = photo.dimensions();
    JpegEncoder::new_with_quality(&mut bytes, 90)
        .encode(photo, width, height, ExtendedColorType::Rgb8)
        .unwrap();
    bytes
}

/// As WebP without loss.
pub fn webp(photo: &Photo) -> Vec<u8> {
    let mut bytes = Vec::new();
    let (width, height) = photo.dimensions();
    WebPEncoder::new_lossless(&mut bytes)
        .encode(photo, width, height, ExtendedColorType::Rgb8)
        .unwrap();
    bytes
}

/// A GIF of so many frames.
pub fn gif(width: u32, height: u32, n_frames: u8) -> Vec<u8> {
    let mut bytes = Vec::new();
    let mut encoder = GifEncoder::new(&mut bytes);
    for n in 0..n_frames {
        let shade = image::Rgba([n * 40, 99, 7, 255]);
        let frame = Frame::new(RgbaImage::from_pixel(width, height, shade));
        encoder.encode_frame(frame).unwrap();
    }
    drop(encoder);
    bytes
}

/// A WebP that says it moves; its frame holds nothing.
pub fn animated_webp(width: u32, height: u32) -> Vec<u8> {
    let size = |n: u32| (n - 1).to_le_bytes();
    let (w, h) = (size(width), size(height));
    let extended = [2, 0, 0, 0, w[0], w[1], w[2], h[0], h[1], h[2]];
    let chunks = [
        riff_chunk(*b"VP8X", &extended),
        riff_chunk(*b"ANIM", &[0; 6]),
        riff_chunk(*b"ANMF", &[0; 16]),
    ]
    .concat();
    riff_chunk(*b"RIFF", &[&b"WEBP"[..], &chunks].concat())
}

fn riff_chunk(name: [u8; 4], data: &[u8]) -> Vec<u8> {
    let length = (data.len() as u32).to_le_bytes();
    [&name[..], &length, data].concat()
}

/// The small TIFF in which cameras say how an image is turned.
fn exif(way: u8) -> Vec<u8> {
    [
        &b"II*\0\x08\0\0\0\x01\0\x12\x01\x03\0\x01\0\0\0"[..],
        &[way, 0, 0, 0, 0, 0, 0, 0],
    ]
    .concat()
}

/// A JPEG stored one way and displayed another (numbers as in EXIF).
pub fn turned_jpeg(stored: &Photo, way: u8) -> Vec<u8> {
    let data = [&b"Exif\0\0"[..], &exif(way)].concat();
    let length = (data.len() as u16 + 2).to_be_bytes();
    let jpeg = jpeg(stored);
    [&jpeg[..2], &[0xFF, 0xE1], &length, &data, &jpeg[2..]].concat()
}

/// The same as PNG.
pub fn turned_png(stored: &Photo, way: u8) -> Vec<u8> {
    let png = png(stored);
    // Behind the signature and the header.
    let at = 8 + 25;
    [&png[..at], &png_chunk(*b"eXIf", &exif(way)), &png[at..]].concat()
}

/// A PNG whose header promises this many pixels, with these bytes for data.
pub fn promising_png(width: u32, height: u32, data: &[u8]) -> Vec<u8> {
    let header = [
        &width.to_be_bytes()[..],
        &height.to_be_bytes(),
        &[8, 6, 0, 0, 0],
    ]
    .concat();
    [
        &b"\x89PNG\r\n\x1a\n"[..],
        &png_chunk(*b"IHDR", &header),
        &png_chunk(*b"IDAT", data),
        &png_chunk(*b"IEND", b""),
    ]
    .concat()
}

fn png_chunk(name: [u8; 4], data: &[u8]) -> Vec<u8> {
    let length = (data.len() as u32).to_be_bytes();
    let named = [&name[..], data].concat();
    let checksum = crc(&named).to_be_bytes();
    [&length[..], &named, &checksum].concat()
}

fn crc(bytes: &[u8]) -> u32 {
    !bytes.iter().fold(!0, |crc: u32, byte| {
        (0..8).fold(crc ^ u32::from(*byte), |crc, _| {
            (crc >> 1) ^ (0xEDB8_8320 & (crc & 1).wrapping_neg())
        })
    })
}
